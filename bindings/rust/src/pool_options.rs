// SPDX-License-Identifier: MIT

use crate::error::CreateError;
use crate::heap::{Heap, LocalHeap};
use crate::pool::Pool;
use crate::sys;
use crate::threads::{Local, Shared, Threads};
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_uint;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

type Construct<T> = Box<dyn Fn() -> Option<T>>;
type Reset<T> = Box<dyn Fn(&mut T)>;

/// What the program has a pool do with an object. Both run with no lock held.
pub(crate) struct Hooks<T> {
    pub(crate) construct: Construct<T>,
    pub(crate) reset: Option<Reset<T>>,
}

/// The heap that a pool has its memory of, which ends behind it.
pub(crate) enum Within {
    Default,
    Shared(Arc<Heap>),
    Local(Rc<LocalHeap>),
}

impl Within {
    pub(crate) fn as_raw(&self) -> *mut sys::pool_heap_t {
        match self {
            Self::Default => ptr::null_mut(),
            Self::Shared(heap) => heap.as_raw(),
            Self::Local(heap) => heap.as_raw(),
        }
    }
}

/// The options of a [`Pool`], begun by [`Pool::builder`]. Options that contradict each other are
/// [refused](CreateError::InvalidOptions) by [`build`](Self::build).
#[must_use = "a builder makes nothing by itself"]
pub struct PoolBuilder<T, M: Threads = Shared> {
    name: Option<Vec<u8>>,
    capacity: usize,
    max_capacity: usize,
    when_full: c_uint,
    flags: c_uint,
    reset_time: c_uint,
    hooks: Hooks<T>,
    within: Within,
    of: PhantomData<M>,
}

impl<T, M: Threads> PoolBuilder<T, M> {
    pub(crate) fn new(construct: Construct<T>, flags: c_uint) -> Self {
        Self {
            name: None,
            capacity: 0,
            max_capacity: 0,
            when_full: sys::OBJECT_POOL_FAIL,
            flags,
            reset_time: sys::OBJECT_POOL_RESET_ON_GET,
            hooks: Hooks { construct, reset: None },
            within: Within::Default,
            of: PhantomData,
        }
    }

    /// Figures and messages have this name, the first 31 bytes of it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into_bytes());
        self
    }

    /// There is memory for so many objects from the beginning, in one contiguous array. Only a pool that grows may do without.
    pub fn capacity(mut self, objects: usize) -> Self {
        self.capacity = objects;
        self
    }

    /// When it is full the pool gets more memory, up to so many objects; 0 is no limit. Without this it is full then.
    pub fn grow(mut self, max_capacity: usize) -> Self {
        self.when_full = sys::OBJECT_POOL_GROW;
        self.max_capacity = max_capacity;
        self
    }

    /// The memory of the objects is of this heap, and counts against its budget. What the objects own is where it would be
    /// anyway.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidepool::{Heap, Pool};
    ///
    /// let heap = Arc::new(Heap::builder().budget(256 << 10).build()?);
    /// let pool = Pool::builder(|| [0u64; 128]).heap(heap.clone()).grow(0).build()?;
    /// let mut lent = Vec::new();
    /// while let Some(object) = pool.get() {
    ///     lent.push(object);
    /// }
    /// assert!(lent.len() > 100 && heap.stats().held_bytes <= 256 << 10);
    /// # drop(lent);
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    pub fn heap(mut self, heap: Arc<Heap>) -> Self {
        self.within = Within::Shared(heap);
        self
    }

    /// Objects are dropped and filled when they are put, and constructed anew for each user, to find misuse by unsafe code. A
    /// finding ends the program with one line. Nothing is ever reset then.
    pub fn checked(mut self) -> Self {
        self.flags |= sys::OBJECT_POOL_CHECKED;
        self
    }

    fn with_reset(mut self, reset: Reset<T>, reset_time: c_uint) -> Self {
        self.hooks.reset = Some(reset);
        self.reset_time = reset_time;
        self
    }

    /// Makes the pool.
    ///
    /// # Errors
    /// The options contradict each other (a capacity of 0 without growth, or beyond its limit), or there is no memory.
    pub fn build(self) -> Result<Pool<T, M>, CreateError> {
        let name = self.name.map(CString::new).transpose();
        let name = name.map_err(|_| CreateError::InvalidOptions)?;
        let options = sys::object_pool_options_t {
            name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
            object_size: 0,
            alignment: 0,
            capacity: self.capacity,
            max_capacity: self.max_capacity,
            when_full: self.when_full,
            construct: None,
            reset: None,
            destruct: None,
            reset_time: self.reset_time,
            choose_victim: None,
            overflow: ptr::null_mut(),
            heap: ptr::null_mut(),
            context: ptr::null_mut(),
            flags: self.flags,
        };
        unsafe { Pool::create(options, self.hooks, self.within) }
    }
}

impl<T> PoolBuilder<T, Shared> {
    /// Runs just before an object is used again: only those that are cost the work. A panic comes out of [`Pool::get`].
    pub fn reset_on_get(self, reset: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        self.with_reset(Box::new(reset), sys::OBJECT_POOL_RESET_ON_GET)
    }

    /// Runs when an object comes back: what it holds on to is let go of at once. A panic comes out of the drop of its
    /// [`Pooled`](crate::Pooled), unless the thread panics already.
    pub fn reset_on_put(self, reset: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        self.with_reset(Box::new(reset), sys::OBJECT_POOL_RESET_ON_PUT)
    }
}

impl<T> PoolBuilder<T, Local> {
    /// As that of a shared pool, for a function that stays in this thread.
    pub fn reset_on_get(self, reset: impl Fn(&mut T) + 'static) -> Self {
        self.with_reset(Box::new(reset), sys::OBJECT_POOL_RESET_ON_GET)
    }

    /// As that of a shared pool, for a function that stays in this thread.
    pub fn reset_on_put(self, reset: impl Fn(&mut T) + 'static) -> Self {
        self.with_reset(Box::new(reset), sys::OBJECT_POOL_RESET_ON_PUT)
    }

    /// As [`heap`](Self::heap), for a heap of this thread.
    pub fn local_heap(mut self, heap: Rc<LocalHeap>) -> Self {
        self.within = Within::Local(heap);
        self
    }
}

impl<T, M: Threads> fmt::Debug for PoolBuilder<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("capacity", &self.capacity)
            .field("max_capacity", &self.max_capacity)
            .finish_non_exhaustive()
    }
}
