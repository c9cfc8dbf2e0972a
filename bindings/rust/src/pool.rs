// SPDX-License-Identifier: MIT

use crate::error::CreateError;
use crate::panics::{catching, go_on, passing_on, within_hook};
use crate::pool_options::{Hooks, PoolBuilder, Within};
use crate::pooled::{Handle, IterMut, Pooled};
use crate::sys;
use crate::threads::{Local, Shared, Threads};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{align_of, needs_drop, size_of};
use std::os::raw::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Objects that are made once and used again and again.
///
/// [`get`](Self::get) lends one, and the end of its [`Pooled`] puts it back. Between two uses it stays as it is, or is reset.
/// It is dropped when the pool ends, or shrinks.
///
/// ```
/// use tidepool::Pool;
///
/// let buffers = Pool::builder(|| Vec::with_capacity(4096)).reset_on_put(Vec::clear).capacity(2).build()?;
/// let mut one = buffers.get().unwrap();
/// one.extend_from_slice(b"some bytes");
/// let two = buffers.get().unwrap();
/// assert!(buffers.get().is_none()); // the pool is full
/// drop(one);
/// let again = buffers.get().unwrap();
/// assert!(again.is_empty() && again.capacity() >= 4096);
/// # drop((two, again));
/// # Ok::<(), tidepool::CreateError>(())
/// ```
///
/// # When it is full
///
/// `get` returns `None`, or the pool [grows](PoolBuilder::grow). The C library has two more policies, which Rust does without:
///
/// - A pool that *overflows* to another one is `near.get().or_else(|| far.get())`: a [`Pooled`] knows its pool.
/// - *Eviction* takes an object from its user, who has a `&mut` to it. What may be taken from its user has none: let go of it
///   by [`Pooled::detach`], keep the [`Handle`], and [`put`](Self::put) the one that is missed least.
///
/// # Objects without a guard
///
/// An object that was [detached](Pooled::detach) or [forgotten](std::mem::forget) stays live. With `&mut` to the pool nobody
/// has a `Pooled`, so these are all that is live. They are reached by their handles, or one after the other:
///
/// ```
/// use tidepool::{Pool, Pooled};
///
/// struct Spark { life: u32 }
/// let mut sparks = Pool::local_builder(|| Spark { life: 0 }).capacity(100).build()?;
/// let first = {
///     let mut spark = sparks.get().unwrap();
///     spark.life = 1;
///     Pooled::detach(spark)
/// };
/// for life in 2..10 {
///     let mut spark = sparks.get().unwrap();
///     spark.life = life;
///     Pooled::detach(spark);
/// }
/// sparks.retain(|spark| {
///     spark.life -= 1;
///     spark.life > 0
/// });
/// assert_eq!(sparks.live(), 8);
/// assert!(sparks.get_mut(first).is_none()); // it is gone
/// # Ok::<(), tidepool::CreateError>(())
/// ```
///
/// # Threads
///
/// A `Pool` is [`Shared`]: all threads may get and put at once. It goes to other threads if `T` is `Send`; nobody has a `&T`
/// who has no `Pooled`, so `T` need not be `Sync`. A [`LocalPool`] stays in one thread, and has no lock.
///
/// ```compile_fail
/// let pool = tidepool::Pool::builder(|| std::rc::Rc::new(1)).capacity(1).build()?;
/// std::thread::spawn(move || drop(pool));
/// # Ok::<(), tidepool::CreateError>(())
/// ```
///
/// An object that was put keeps what is in it. So a pool of `T` is not one of a `T` that lives longer:
///
/// ```compile_fail
/// fn shorten<'short>(pool: &'short tidepool::Pool<&'static str>) -> &'short tidepool::Pool<&'short str> {
///     pool
/// }
/// ```
///
/// # Panics of the program's functions
///
/// A panic of the constructor, of the reset or of the drop of an object does not pass through the C library. It comes out of
/// the call that led there, after that is done: `get`, `shrink`, the drop of a `Pooled` or of the pool. If there are several
/// in one call it is the first. In a thread that is panicking already a second panic ends the program, or is lost, as the
/// version of Rust has it.
pub struct Pool<T, M: Threads = Shared> {
    raw: NonNull<sys::object_pool_t>,
    /// Of a `Box`.
    hooks: *mut Hooks<T>,
    id: u64,
    /// Ends behind the pool itself.
    _within: Within,
    _owns: PhantomData<T>,
    /// What was put is seen by those who get: the type is one exactly.
    _exactly: PhantomData<fn(T) -> T>,
    _threads: PhantomData<M>,
}

/// A pool that stays in the thread that made it, and has no lock. [`Pool::local_builder`] begins one.
pub type LocalPool<T> = Pool<T, Local>;

// What one thread has put another one gets. The hooks are Send and Sync, and the heap is not of one thread: the builder of a
// shared pool takes no others.
unsafe impl<T: Send> Send for Pool<T, Shared> {}
unsafe impl<T: Send> Sync for Pool<T, Shared> {}

impl<T> Pool<T> {
    /// The options of a pool. The function makes an object before its first use. A panic of it comes out of
    /// [`get`](Self::get), and the object is tried again by a later one.
    pub fn builder(construct: impl Fn() -> T + Send + Sync + 'static) -> PoolBuilder<T> {
        Self::try_builder(move || Some(construct()))
    }

    /// The same with a function that may have no object to give; [`get`](Self::get) has none then either.
    ///
    /// ```
    /// use std::fs::File;
    ///
    /// let pool = tidepool::Pool::try_builder(|| File::open("/no/such/file").ok()).capacity(4).build()?;
    /// assert!(pool.get().is_none());
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    pub fn try_builder(construct: impl Fn() -> Option<T> + Send + Sync + 'static) -> PoolBuilder<T> {
        PoolBuilder::new(Box::new(construct), 0)
    }
}

impl<T> LocalPool<T> {
    /// The options of a pool for this thread alone, as [`builder`](Pool::builder) has them.
    pub fn local_builder(construct: impl Fn() -> T + 'static) -> PoolBuilder<T, Local> {
        Self::try_local_builder(move || Some(construct()))
    }

    /// The same with a function that may have no object to give.
    pub fn try_local_builder(construct: impl Fn() -> Option<T> + 'static) -> PoolBuilder<T, Local> {
        PoolBuilder::new(Box::new(construct), sys::OBJECT_POOL_SINGLE_THREAD)
    }
}

impl<T, M: Threads> Pool<T, M> {
    /// # Safety
    /// The options have the flag of one thread exactly if `M` is local, and hooks and heap are of all threads unless it is.
    /// The name is valid during the call.
    pub(crate) unsafe fn create(
        mut options: sys::object_pool_options_t,
        hooks: Hooks<T>,
        within: Within,
    ) -> Result<Self, CreateError> {
        static POOLS: AtomicU64 = AtomicU64::new(0);
        options.heap = within.as_raw();
        options.object_size = size_of::<T>().max(1); // a type without size has places all the same
        options.alignment = align_of::<T>();
        options.construct = Some(construct::<T>);
        options.reset = hooks.reset.as_ref().map(|_| reset::<T> as _);
        options.destruct = if needs_drop::<T>() { Some(destruct::<T>) } else { None };
        let hooks = Box::into_raw(Box::new(hooks));
        options.context = hooks.cast();
        let size = size_of::<sys::object_pool_options_t>();
        match NonNull::new(unsafe { sys::object_pool_create_sized(&options, size) }) {
            Some(raw) => Ok(Self {
                raw,
                hooks,
                id: POOLS.fetch_add(1, Ordering::Relaxed),
                _within: within,
                _owns: PhantomData,
                _exactly: PhantomData,
                _threads: PhantomData,
            }),
            None => {
                let why = CreateError::last();
                drop(unsafe { Box::from_raw(hooks) });
                Err(why)
            }
        }
    }

    /// The pool of the C interface, which is this value's. To get an object there and not to put it is like forgetting a
    /// [`Pooled`].
    #[must_use]
    pub fn as_raw(&self) -> *mut sys::object_pool_t {
        self.raw.as_ptr()
    }

    /// Lends an object, or `None`: the pool is full and cannot grow, or its constructor has none to give.
    ///
    /// # Panics
    /// If the constructor or the reset does. The object is free again then.
    #[must_use = "an object that is not used goes back at once"]
    pub fn get(&self) -> Option<Pooled<'_, T, M>> {
        let (object, thrown) = catching(|| unsafe { sys::object_pool_get(self.as_raw()) });
        let lent = NonNull::new(object.cast::<T>()).map(|object| unsafe { Pooled::from_raw_of(object, self) });
        if thrown.is_some() {
            drop(lent);
            go_on(thrown);
            return None; // a thread that panics already
        }
        lent
    }

    /// How many objects are lent, detached or forgotten.
    #[must_use]
    pub fn live(&self) -> usize {
        unsafe { sys::object_pool_live(self.as_raw()) }
    }

    /// How many objects there is memory for. A pool that grew may give back what it has not needed for some time in this call.
    #[must_use]
    pub fn capacity(&self) -> usize {
        passing_on(|| unsafe { sys::object_pool_capacity(self.as_raw()) })
    }

    /// Gives back memory that a growing pool added and that holds no live object, as long as `capacity` objects are left.
    /// Returns the new capacity.
    pub fn shrink(&self, capacity: usize) -> usize {
        passing_on(|| unsafe { sys::object_pool_shrink(self.as_raw(), capacity) })
    }

    /// Whether that use of an object goes on.
    #[must_use]
    pub fn is_live(&self, handle: Handle<T>) -> bool {
        self.resolve(handle).is_some()
    }

    /// The object of a handle: `None` once that use of it has ended, and for a handle of another pool.
    #[must_use]
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        self.resolve(handle).map(|object| unsafe { &mut *object.as_ptr() })
    }

    /// Takes an object that was detached under a guard again.
    ///
    /// ```
    /// use tidepool::{Pool, Pooled};
    ///
    /// let mut pool = Pool::builder(String::new).capacity(1).build()?;
    /// let handle = Pooled::detach(pool.get().unwrap());
    /// assert!(pool.get().is_none());
    /// drop(pool.attach(handle));
    /// assert!(pool.get().is_some());
    /// assert!(pool.attach(handle).is_none());
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    #[must_use = "an object that is not used goes back at once"]
    pub fn attach(&mut self, handle: Handle<T>) -> Option<Pooled<'_, T, M>> {
        let object = self.resolve(handle)?;
        Some(unsafe { Pooled::from_raw_of(object, self) })
    }

    /// Puts the object of a handle back. False if that use of it has ended.
    ///
    /// # Panics
    /// If the reset does. The object is back in the pool then.
    pub fn put(&mut self, handle: Handle<T>) -> bool {
        self.attach(handle).is_some()
    }

    /// Puts all live objects back.
    ///
    /// # Panics
    /// If a reset does. All objects are back in the pool then.
    pub fn clear(&mut self) {
        passing_on(|| unsafe { sys::object_pool_put_all(self.as_raw()) });
    }

    /// The live objects, by address.
    pub fn iter_mut(&mut self) -> IterMut<'_, T, M> {
        IterMut::new(self)
    }

    /// Puts back those of the live objects for which the function returns false.
    ///
    /// # Panics
    /// If the function or a reset does; what comes behind is as it was.
    pub fn retain(&mut self, mut stays: impl FnMut(&mut T) -> bool) {
        let mut at = ptr::null_mut();
        while let Some(object) = self.next_live(at) {
            at = object.as_ptr();
            if !stays(unsafe { &mut *at }) {
                drop(unsafe { Pooled::from_raw_of(object, self) });
            }
        }
    }

    /// The first live object behind that one; null begins.
    pub(crate) fn next_live(&self, previous: *mut T) -> Option<NonNull<T>> {
        let next = unsafe { sys::object_pool_next(self.as_raw(), previous.cast()) };
        NonNull::new(next.cast())
    }

    pub(crate) fn handle_of(&self, object: NonNull<T>) -> Handle<T> {
        let raw = unsafe { sys::object_pool_handle(self.as_raw(), object.as_ptr().cast()) };
        Handle::new(self.id, raw)
    }

    fn resolve(&self, handle: Handle<T>) -> Option<NonNull<T>> {
        let raw = handle.of_pool(self.id)?;
        NonNull::new(unsafe { sys::object_pool_resolve(self.as_raw(), raw) }.cast())
    }
}

impl<T, M: Threads> Drop for Pool<T, M> {
    fn drop(&mut self) {
        let ((), thrown) = catching(|| unsafe { sys::object_pool_destroy(self.as_raw()) });
        drop(unsafe { Box::from_raw(self.hooks) });
        go_on(thrown);
    }
}

impl<T, M: Threads> fmt::Debug for Pool<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("live", &self.live()).finish_non_exhaustive()
    }
}

// ---- hooks: the object is nobody else's while one runs, and the context is the hooks of the pool, which it outlives ----

unsafe extern "C" fn construct<T>(object: *mut c_void, context: *mut c_void) -> bool {
    let hooks = unsafe { &*context.cast::<Hooks<T>>() };
    match within_hook(|| (hooks.construct)()).flatten() {
        Some(made) => {
            unsafe { object.cast::<T>().write(made) };
            true
        }
        None => false,
    }
}

unsafe extern "C" fn reset<T>(object: *mut c_void, context: *mut c_void) {
    let hooks = unsafe { &*context.cast::<Hooks<T>>() };
    let object = unsafe { &mut *object.cast::<T>() };
    if let Some(reset) = &hooks.reset {
        within_hook(|| reset(object));
    }
}

unsafe extern "C" fn destruct<T>(object: *mut c_void, _context: *mut c_void) {
    within_hook(|| unsafe { ptr::drop_in_place(object.cast::<T>()) });
}
