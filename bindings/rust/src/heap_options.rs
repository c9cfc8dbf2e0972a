// SPDX-License-Identifier: MIT

use crate::error::CreateError;
use crate::heap::Heap;
use crate::stats::Stats;
use crate::sys;
use crate::threads::{Local, Shared, Threads};
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::raw::c_uint;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

pub(crate) type OnExhausted = Box<dyn Fn(&Exhausted<'_>) -> bool>;

/// What a heap tells its callback: it cannot serve a request. See [`HeapBuilder::on_exhausted`].
pub struct Exhausted<'c> {
    heap: NonNull<sys::pool_heap_t>,
    bytes_needed: usize,
    attempt: u32,
    _call: PhantomData<&'c ()>,
}

impl Exhausted<'_> {
    /// The heap is live during the callback, which lasts as long as the value.
    pub(crate) fn new(heap: NonNull<sys::pool_heap_t>, bytes_needed: usize, attempt: u32) -> Self {
        Self {
            heap,
            bytes_needed,
            attempt,
            _call: PhantomData,
        }
    }

    /// How much is missing.
    #[must_use]
    pub fn bytes_needed(&self) -> usize {
        self.bytes_needed
    }

    /// How often the callback was called for this request before: 0 to 63.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The figures of the heap.
    #[must_use]
    pub fn stats(&self) -> Stats {
        unsafe { Stats::of(self.heap.as_ptr()) }
    }

    /// Sets the budget of the heap, as [`Heap::set_budget`] does.
    #[must_use = "the budget is unchanged if this is false"]
    pub fn set_budget(&self, bytes: usize) -> bool {
        unsafe { sys::pool_heap_set_budget(self.heap.as_ptr(), bytes) }
    }
}

impl fmt::Debug for Exhausted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exhausted")
            .field("bytes_needed", &self.bytes_needed)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// The options of a [`Heap`]. Options that contradict each other are [refused](CreateError::InvalidOptions) by
/// [`build`](Self::build).
///
/// ```
/// use std::sync::Arc;
/// use tidepool::Heap;
///
/// let all = Arc::new(Heap::builder().name("all").budget(8 << 20).build()?);
/// let cache = Heap::builder().name("cache").parent(all.clone()).build()?;
/// let audio = Heap::local_builder().name("audio").parent(all.clone()).reserve(1 << 20).prefault().build()?;
/// assert_eq!(all.stats().children_bytes, cache.stats().held_bytes + audio.stats().held_bytes);
/// # Ok::<(), tidepool::CreateError>(())
/// ```
#[must_use = "a builder makes nothing by itself"]
pub struct HeapBuilder<M: Threads = Shared> {
    options: sys::pool_heap_options_t,
    name: Option<Vec<u8>>,
    size_classes: Vec<usize>,
    on_exhausted: Option<OnExhausted>,
    parent: Option<Arc<Heap>>,
    overflow: Option<Arc<Heap>>,
    of: PhantomData<M>,
}

impl<M: Threads> HeapBuilder<M> {
    pub(crate) fn new(flags: c_uint) -> Self {
        let options = sys::pool_heap_options_t {
            name: ptr::null(),
            budget: 0,
            reserve: 0,
            parent: ptr::null_mut(),
            on_exhausted: None,
            overflow: ptr::null_mut(),
            context: ptr::null_mut(),
            memory: ptr::null_mut(),
            memory_size: 0,
            size_classes: ptr::null(),
            size_class_count: 0,
            purge_delay_ms: 0,
            flags,
        };
        Self {
            options,
            name: None,
            size_classes: Vec::new(),
            on_exhausted: None,
            parent: None,
            overflow: None,
            of: PhantomData,
        }
    }

    /// Figures and messages have this name, the first 31 bytes of it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into_bytes());
        self
    }

    /// The heap, with its records, never holds more bytes than this; 0 is no limit.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.options.budget = bytes;
        self
    }

    /// Bytes for blocks are taken at creation, so that growth up to them cannot fail.
    pub fn reserve(mut self, bytes: usize) -> Self {
        self.options.reserve = bytes;
        self
    }

    /// What this heap holds counts against the parent's budget too, and so upward.
    pub fn parent(mut self, heap: Arc<Heap>) -> Self {
        self.parent = Some(heap);
        self
    }

    /// That heap serves a request that this one cannot serve, not even after the callback.
    pub fn overflow(mut self, heap: Arc<Heap>) -> Self {
        self.overflow = Some(heap);
        self
    }

    /// In this buffer everything lives, the records too, and the system is never asked. It is the heap's for good: a heap
    /// that is forgotten never ends.
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    ///
    /// let buffer = Box::leak(vec![MaybeUninit::<u8>::uninit(); 64 << 10].into_boxed_slice());
    /// let within = buffer.as_ptr_range();
    /// let heap = tidepool::Heap::builder().memory(buffer).build()?;
    /// let number = heap.alloc_value(7u64).unwrap();
    /// assert!(within.contains(&(&*number as *const u64).cast()));
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    pub fn memory(self, buffer: &'static mut [MaybeUninit<u8>]) -> Self {
        unsafe { self.memory_raw(buffer.as_mut_ptr().cast(), buffer.len()) }
    }

    /// The same for a buffer that need not last for ever.
    ///
    /// # Safety
    /// The buffer is valid for reads and writes, and nothing but the heap uses it, until the heap has ended. A heap that was
    /// forgotten does not end. In the child of a fork the buffer has to be there, too, which the stack of another thread is
    /// not.
    pub unsafe fn memory_raw(mut self, start: *mut u8, size: usize) -> Self {
        self.options.memory = start.cast();
        self.options.memory_size = size;
        self
    }

    /// Block sizes that replace the built-in ones: ascending multiples of 16 up to 256 KiB, at most 104 of them.
    pub fn size_classes(mut self, sizes: impl Into<Vec<usize>>) -> Self {
        self.size_classes = sizes.into();
        self
    }

    /// Idle memory of a reserve, or of a budget of up to 8 MiB, is kept so long before it goes back to the system. It is
    /// rounded up to milliseconds; what they cannot count is [never](Self::purge_never).
    pub fn purge_delay(mut self, delay: Duration) -> Self {
        let milliseconds = delay.as_nanos().max(1).saturating_add(999_999) / 1_000_000;
        self.options.purge_delay_ms = c_uint::try_from(milliseconds).unwrap_or(sys::POOL_PURGE_NEVER);
        self
    }

    /// Idle memory never goes back by itself.
    pub fn purge_never(mut self) -> Self {
        self.options.purge_delay_ms = sys::POOL_PURGE_NEVER;
        self
    }

    /// The reserve is touched at creation, and kept.
    pub fn prefault(self) -> Self {
        self.with(sys::POOL_HEAP_PREFAULT)
    }

    /// The reserve or the memory, and the heap's records, are locked with `mlock`.
    pub fn lock_memory(self) -> Self {
        self.with(sys::POOL_HEAP_LOCK_MEMORY)
    }

    /// Nothing of a returned block stays in memory.
    pub fn zero_on_free(self) -> Self {
        self.with(sys::POOL_HEAP_ZERO_ON_FREE)
    }

    /// Blocks are filled and checked, to find misuse by unsafe code. A finding ends the program with one line. Only the debug
    /// library does: `build` fails otherwise.
    pub fn checked(self) -> Self {
        self.with(sys::POOL_HEAP_CHECKED)
    }

    /// Each block knows where it was allocated: see `pool_heap_report` in `sys`. Only in the debug library.
    pub fn sites(self) -> Self {
        self.with(sys::POOL_HEAP_SITES)
    }

    /// Blocks end at inaccessible pages, and are inaccessible once they are freed. An access outside ends the program. Only in
    /// the debug library.
    pub fn guarded(self) -> Self {
        self.with(sys::POOL_HEAP_GUARDED)
    }

    /// Blocks of any size are cut out of one piece, as in every heap with a budget of up to 8 MiB.
    pub fn dense(self) -> Self {
        self.with(sys::POOL_HEAP_DENSE)
    }

    fn with(mut self, flag: c_uint) -> Self {
        self.options.flags |= flag;
        self
    }

    /// Makes the heap.
    ///
    /// # Errors
    /// The options contradict each other or leave too little room, or there is no memory.
    pub fn build(mut self) -> Result<Heap<M>, CreateError> {
        let name = self.name.map(CString::new).transpose();
        let name = name.map_err(|_| CreateError::InvalidOptions)?;
        if let Some(name) = &name {
            self.options.name = name.as_ptr();
        }
        if !self.size_classes.is_empty() {
            self.options.size_classes = self.size_classes.as_ptr();
            self.options.size_class_count = self.size_classes.len();
        }
        unsafe { Heap::create(self.options, self.on_exhausted, self.parent, self.overflow) }
    }
}

impl HeapBuilder<Shared> {
    /// The heap calls this when it cannot serve a request within its budget, without any lock held, in the thread that needs
    /// the memory, at most 64 times for one request. It may free blocks of the heap or raise its budget. It returns whether
    /// the heap shall try again. A panic counts as false.
    ///
    /// A request to the heap in the callback may call it again; so let a flag end that.
    ///
    /// ```
    /// use tidepool::Heap;
    ///
    /// let heap = Heap::builder()
    ///     .budget(64 << 10)
    ///     .on_exhausted(|heap| heap.set_budget(heap.stats().budget + (64 << 10)))
    ///     .build()?;
    /// let blocks: Vec<_> = (0..100).map(|i| heap.alloc_value([i; 1000]).unwrap()).collect();
    /// assert!(heap.stats().budget > 64 << 10 && heap.stats().retried_count > 0);
    /// # drop(blocks);
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    ///
    /// A callback that frees blocks has to own them. They borrow the heap, so it is one that never ends:
    /// `tests/heap.rs` has a cache that drops its oldest.
    pub fn on_exhausted(mut self, called: impl Fn(&Exhausted<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.on_exhausted = Some(Box::new(called));
        self
    }
}

impl HeapBuilder<Local> {
    /// As that of a shared heap, for a function that stays in this thread.
    pub fn on_exhausted(mut self, called: impl Fn(&Exhausted<'_>) -> bool + 'static) -> Self {
        self.on_exhausted = Some(Box::new(called));
        self
    }
}

impl<M: Threads> fmt::Debug for HeapBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
