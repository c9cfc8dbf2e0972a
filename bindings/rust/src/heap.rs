// SPDX-License-Identifier: MIT

use crate::error::{AllocError, CreateError, NoRoom};
use crate::global::BLOCK_ALIGNMENT;
use crate::heap_box::HeapBox;
use crate::heap_options::{Exhausted, HeapBuilder, OnExhausted};
use crate::stats::{text_of, Stats};
use crate::sys;
use crate::threads::{Local, Shared, Threads};
use std::alloc::Layout;
use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::{c_uint, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A memory manager of its own for one subsystem, with a budget, a policy for when that is used up, and an end that takes every
/// block with it.
///
/// ```
/// use tidepool::Heap;
///
/// let heap = Heap::builder().name("requests").budget(1 << 20).build()?;
/// let mut greeting = heap.alloc_str("good day")?;
/// greeting.make_ascii_uppercase();
/// assert_eq!(&*greeting, "GOOD DAY");
/// assert!(heap.owns(greeting.as_ptr()) && heap.stats().held_bytes <= 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What lives in it
///
/// [`HeapBox`] is `Box` in a heap; it borrows the heap, so the heap ends last:
///
/// ```compile_fail
/// let heap = tidepool::Heap::new()?;
/// let number = heap.alloc_value(7).unwrap();
/// drop(heap);
/// println!("{}", *number);
/// # Ok::<(), tidepool::CreateError>(())
/// ```
///
/// On stable Rust the collections of the standard library have no parameter for an allocator: `Vec`, `HashMap` and `String`
/// are always in the memory of the global allocator. [`alloc`](Self::alloc) and [`dealloc`](Self::dealloc) are there for
/// collections that take such functions.
///
/// # Threads
///
/// A `Heap` is [`Shared`]: all threads may use it at once. A [`LocalHeap`] stays in one thread, and has no locks:
///
/// ```compile_fail
/// let local = tidepool::Heap::local_builder().build()?;
/// std::thread::spawn(move || drop(local));
/// # Ok::<(), tidepool::CreateError>(())
/// ```
///
/// # Heaps that others need
///
/// A heap that is the parent or the overflow of others, or has object pools in it, is in an [`Arc`]. It ends when the last of
/// them has ended, and cannot be [reset](Self::reset) before: there is no `&mut` to what several have.
pub struct Heap<M: Threads = Shared> {
    raw: NonNull<sys::pool_heap_t>,
    /// Of a `Box`, or null.
    on_exhausted: *mut OnExhausted,
    // These end behind the heap itself.
    _parent: Option<Arc<Heap>>,
    _overflow: Option<Arc<Heap>>,
    _threads: PhantomData<M>,
}

/// A heap that stays in the thread that made it, and has no locks. [`Heap::local_builder`] begins one.
pub type LocalHeap = Heap<Local>;

// Any thread may call any function of a heap that is not of one thread. What such a heap calls is Send and Sync
// (HeapBuilder::on_exhausted).
unsafe impl Send for Heap<Shared> {}
unsafe impl Sync for Heap<Shared> {}

impl Heap {
    /// A heap without a budget, in memory of the system.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<Self, CreateError> {
        Self::builder().build()
    }

    /// The options of a heap, all of them the default.
    pub fn builder() -> HeapBuilder {
        HeapBuilder::new(0)
    }

    /// The options of a heap for this thread alone.
    pub fn local_builder() -> HeapBuilder<Local> {
        HeapBuilder::new(sys::POOL_HEAP_SINGLE_THREAD)
    }
}

impl<M: Threads> Heap<M> {
    /// # Safety
    /// The options have the flag of one thread if `M` is local, and the callback is Send and Sync unless it is. What they
    /// point to is valid during the call; their memory stays the heap's alone.
    pub(crate) unsafe fn create(
        mut options: sys::pool_heap_options_t,
        on_exhausted: Option<OnExhausted>,
        parent: Option<Arc<Heap>>,
        overflow: Option<Arc<Heap>>,
    ) -> Result<Self, CreateError> {
        let on_exhausted = on_exhausted.map_or(ptr::null_mut(), |called| Box::into_raw(Box::new(called)));
        if !on_exhausted.is_null() {
            options.on_exhausted = Some(call_on_exhausted);
            options.context = on_exhausted.cast();
        }
        options.parent = parent.as_ref().map_or(ptr::null_mut(), |heap| heap.as_raw());
        options.overflow = overflow.as_ref().map_or(ptr::null_mut(), |heap| heap.as_raw());
        let raw = unsafe { sys::pool_heap_create_sized(&options, size_of::<sys::pool_heap_options_t>()) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Self {
                raw,
                on_exhausted,
                _parent: parent,
                _overflow: overflow,
                _threads: PhantomData,
            }),
            None => {
                let why = CreateError::last();
                unsafe { drop_on_exhausted(on_exhausted) };
                Err(why)
            }
        }
    }

    /// The heap of the C interface, which is this value's.
    #[must_use]
    pub fn as_raw(&self) -> *mut sys::pool_heap_t {
        self.raw.as_ptr()
    }

    /// Moves a value into the heap.
    ///
    /// ```
    /// let heap = tidepool::Heap::builder().budget(64 << 10).build()?;
    /// let mut kept = Vec::new();
    /// let refused = loop {
    ///     match heap.alloc_value([0u8; 1000]) {
    ///         Ok(block) => kept.push(block),
    ///         Err(refused) => break refused,
    ///     }
    /// };
    /// assert_eq!(refused.0.len(), 1000); // the value comes back
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    ///
    /// # Errors
    /// The heap is exhausted, and the value comes back. A value without size takes no memory, and always has room.
    pub fn alloc_value<T>(&self, value: T) -> Result<HeapBox<'_, T, M>, NoRoom<T>> {
        let layout = Layout::new::<T>();
        let place = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            match self.alloc(layout) {
                Ok(block) => block.cast::<T>(),
                Err(AllocError) => return Err(NoRoom(value)),
            }
        };
        unsafe {
            place.as_ptr().write(value);
            Ok(HeapBox::from_raw_in(place, self))
        }
    }

    /// Copies a slice into the heap.
    ///
    /// # Errors
    /// The heap is exhausted.
    pub fn alloc_slice<T: Copy>(&self, values: &[T]) -> Result<HeapBox<'_, [T], M>, AllocError> {
        let layout = Layout::for_value(values);
        let place = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            self.alloc(layout)?.cast::<T>()
        };
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), place.as_ptr(), values.len());
            let slice = ptr::slice_from_raw_parts_mut(place.as_ptr(), values.len());
            Ok(HeapBox::from_raw_in(NonNull::new_unchecked(slice), self))
        }
    }

    /// Copies a text into the heap.
    ///
    /// # Errors
    /// The heap is exhausted.
    pub fn alloc_str(&self, text: &str) -> Result<HeapBox<'_, str, M>, AllocError> {
        let bytes = HeapBox::into_raw(self.alloc_slice(text.as_bytes())?);
        unsafe {
            let text = NonNull::new_unchecked(bytes.as_ptr() as *mut str);
            Ok(HeapBox::from_raw_in(text, self))
        }
    }

    /// Takes a block of at least the size and alignment of the layout, which may be of size 0. Its contents are undefined. It
    /// is valid until it is given to [`dealloc`](Self::dealloc) or [`realloc`](Self::realloc), or the heap is reset or ends.
    ///
    /// # Errors
    /// The heap is exhausted.
    pub fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let block = unsafe {
            if layout.align() <= BLOCK_ALIGNMENT {
                sys::pool_heap_alloc(self.as_raw(), layout.size())
            } else {
                sys::pool_heap_aligned_alloc(self.as_raw(), layout.align(), layout.size())
            }
        };
        NonNull::new(block.cast()).ok_or(AllocError)
    }

    /// The same with zeros in it.
    ///
    /// # Errors
    /// The heap is exhausted.
    pub fn alloc_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        if layout.align() <= BLOCK_ALIGNMENT {
            let block = unsafe { sys::pool_heap_zalloc(self.as_raw(), layout.size()) };
            return NonNull::new(block.cast()).ok_or(AllocError);
        }
        let block = self.alloc(layout)?;
        unsafe { block.as_ptr().write_bytes(0, layout.size()) };
        Ok(block)
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The block is of this heap, with this layout, and was not taken back since. Nothing uses it any more.
    pub unsafe fn dealloc(&self, block: NonNull<u8>, _layout: Layout) {
        unsafe { sys::pool_heap_free(self.as_raw(), block.as_ptr().cast()) }
    }

    /// Changes the size of a block, which may move. What it holds is kept up to the smaller of both sizes.
    ///
    /// # Errors
    /// The heap is exhausted; the block is as it was.
    ///
    /// # Safety
    /// As for [`dealloc`](Self::dealloc), and the new size is one that a layout can have. From then on the layout of the
    /// block has the new size.
    pub unsafe fn realloc(&self, block: NonNull<u8>, layout: Layout, new_size: usize) -> Result<NonNull<u8>, AllocError> {
        unsafe {
            if layout.align() <= BLOCK_ALIGNMENT {
                // A size of 0 would free the block.
                let size = new_size.max(1);
                let moved = sys::pool_heap_realloc(self.as_raw(), block.as_ptr().cast(), size);
                return NonNull::new(moved.cast()).ok_or(AllocError);
            }
            let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()))?;
            let kept = layout.size().min(new_size);
            ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), kept);
            self.dealloc(block, layout);
            Ok(moved)
        }
    }

    /// Ends every block of the heap. The memory is kept for the next round, and it costs by the slab, not by the block.
    ///
    /// Values that were [forgotten](std::mem::forget) in it end without their `drop`. Nobody else has any:
    ///
    /// ```
    /// let mut heap = tidepool::Heap::new()?;
    /// for round in 0..3 {
    ///     for number in 0..1000 {
    ///         std::mem::forget(heap.alloc_value(round * number));
    ///     }
    ///     heap.reset();
    ///     assert_eq!(heap.stats().live_blocks, 0);
    /// }
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    ///
    /// ```compile_fail
    /// let mut heap = tidepool::Heap::new()?;
    /// let number = heap.alloc_value(7).unwrap();
    /// heap.reset();
    /// println!("{}", *number);
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    pub fn reset(&mut self) {
        unsafe { sys::pool_heap_reset(self.as_raw()) }
    }

    /// The figures. It takes locks for microseconds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        unsafe { Stats::of(self.as_raw()) }
    }

    /// The figures, with those of each size class, as one JSON object.
    #[must_use]
    pub fn stats_json(&self) -> String {
        text_of(|buffer, size| unsafe { sys::pool_heap_stats_json(self.as_raw(), buffer, size) })
    }

    /// Whether the address is in memory of this heap. It takes any address.
    #[must_use]
    pub fn owns<T: ?Sized>(&self, address: *const T) -> bool {
        unsafe { sys::pool_heap_of(address.cast()) == self.as_raw() }
    }

    /// The size of the block that a request for so many bytes gets.
    #[must_use]
    pub fn good_size(&self, size: usize) -> usize {
        unsafe { sys::pool_heap_good_size(self.as_raw(), size) }
    }

    /// The size of the largest request that the heap would serve now; exact for heaps in small memories.
    pub fn largest(&self) -> usize {
        unsafe { sys::pool_heap_largest(self.as_raw()) }
    }

    /// Sets the budget; 0 is no limit. False, and nothing has changed, if more is held even after a trim.
    #[must_use = "the budget is unchanged if this is false"]
    pub fn set_budget(&self, bytes: usize) -> bool {
        unsafe { sys::pool_heap_set_budget(self.as_raw(), bytes) }
    }

    /// Gives idle memory beyond `keep` bytes back to the system, and returns the bytes given.
    pub fn trim(&self, keep: usize) -> usize {
        unsafe { sys::pool_heap_trim(self.as_raw(), keep) }
    }

    /// The name: the first 31 bytes of the one that was given, or a generated one.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        unsafe { CStr::from_ptr(sys::pool_heap_name(self.as_raw())) }.to_string_lossy()
    }
}

impl<M: Threads> Drop for Heap<M> {
    fn drop(&mut self) {
        unsafe {
            sys::pool_heap_destroy(self.as_raw());
            drop_on_exhausted(self.on_exhausted);
        }
    }
}

impl<M: Threads> fmt::Debug for Heap<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// # Safety
/// Null, or of a `Box` that nothing leads to any more.
unsafe fn drop_on_exhausted(called: *mut OnExhausted) {
    if !called.is_null() {
        drop(unsafe { Box::from_raw(called) });
    }
}

/// A panic may not go through the C library. It counts as an answer of no; the panic hook has told of it.
unsafe extern "C" fn call_on_exhausted(
    heap: *mut sys::pool_heap_t,
    bytes_needed: usize,
    attempt: c_uint,
    context: *mut c_void,
) -> bool {
    let answer = catch_unwind(AssertUnwindSafe(|| unsafe {
        let called = &*context.cast::<OnExhausted>();
        called(&Exhausted::new(NonNull::new_unchecked(heap), bytes_needed, attempt))
    }));
    answer.unwrap_or_else(|payload| {
        // What was thrown may panic once more when it is dropped.
        std::mem::forget(payload);
        false
    })
}
