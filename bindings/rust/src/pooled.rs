// SPDX-License-Identifier: MIT

use crate::panics::passing_on;
use crate::pool::Pool;
use crate::sys;
use crate::threads::{Shared, Threads};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// An object of a [`Pool`], lent until this ends.
///
/// A guard that is [forgotten](std::mem::forget) lends its object until the pool ends, or somebody with `&mut` to the pool puts
/// it back.
pub struct Pooled<'p, T, M: Threads = Shared> {
    object: NonNull<T>,
    pool: &'p Pool<T, M>,
}

// It is the only way to its object. What else it does is to call its pool, which is Sync if T is Send.
unsafe impl<T: Send> Send for Pooled<'_, T, Shared> {}
unsafe impl<T: Send + Sync> Sync for Pooled<'_, T, Shared> {}

impl<'p, T, M: Threads> Pooled<'p, T, M> {
    /// # Safety
    /// The object is live in the pool, and nobody else has it.
    pub(crate) unsafe fn from_raw_of(object: NonNull<T>, pool: &'p Pool<T, M>) -> Self {
        Self { object, pool }
    }

    /// A name for this use of the object, which tells later whether it still goes on.
    ///
    /// ```
    /// use tidepool::{Pool, Pooled};
    ///
    /// let pool = Pool::builder(String::new).capacity(1).build()?;
    /// let text = pool.get().unwrap();
    /// let handle = Pooled::handle(&text);
    /// assert!(pool.is_live(handle));
    /// drop(text);
    /// let text = pool.get().unwrap(); // the same object, another use
    /// assert!(!pool.is_live(handle) && handle != Pooled::handle(&text));
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    #[must_use]
    pub fn handle(this: &Self) -> Handle<T> {
        this.pool.handle_of(this.object)
    }

    /// Gives up the guard. The object stays live, and its handle leads to it.
    pub fn detach(this: Self) -> Handle<T> {
        Self::handle(&ManuallyDrop::new(this))
    }
}

impl<T, M: Threads> Drop for Pooled<'_, T, M> {
    fn drop(&mut self) {
        let (pool, object) = (self.pool.as_raw(), self.object.as_ptr());
        passing_on(|| unsafe { sys::object_pool_put(pool, object.cast()) });
    }
}

impl<T, M: Threads> Deref for Pooled<'_, T, M> {
    type Target = T;
    fn deref(&self) -> &T {
        unsafe { self.object.as_ref() }
    }
}

impl<T, M: Threads> DerefMut for Pooled<'_, T, M> {
    fn deref_mut(&mut self) -> &mut T {
        unsafe { self.object.as_mut() }
    }
}

impl<T: fmt::Debug, M: Threads> fmt::Debug for Pooled<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display, M: Threads> fmt::Display for Pooled<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A name for one use of an object of a [`Pool`].
///
/// It holds nothing, and may be kept longer than the pool. It repeats after 2^32 uses of one object; it leads to a `T` of its
/// own pool then, too.
pub struct Handle<T> {
    pool: u64,
    raw: sys::object_pool_handle_t,
    _of: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    pub(crate) fn new(pool: u64, raw: sys::object_pool_handle_t) -> Self {
        Self {
            pool,
            raw,
            _of: PhantomData,
        }
    }

    /// `None` if it is of another pool.
    pub(crate) fn of_pool(self, pool: u64) -> Option<sys::object_pool_handle_t> {
        if self.pool == pool {
            Some(self.raw)
        } else {
            None
        }
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.pool == other.pool && self.raw == other.raw
    }
}

impl<T> Eq for Handle<T> {}

impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.pool, self.raw).hash(state);
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("index", &self.raw.index)
            .field("generation", &self.raw.generation)
            .finish_non_exhaustive()
    }
}

/// The live objects of a [`Pool`], by address: [`Pool::iter_mut`].
pub struct IterMut<'p, T, M: Threads = Shared> {
    pool: &'p mut Pool<T, M>,
    at: *mut T,
    ended: bool,
}

impl<'p, T, M: Threads> IterMut<'p, T, M> {
    pub(crate) fn new(pool: &'p mut Pool<T, M>) -> Self {
        Self {
            pool,
            at: ptr::null_mut(),
            ended: false,
        }
    }
}

impl<'p, T, M: Threads> Iterator for IterMut<'p, T, M> {
    type Item = &'p mut T;

    // Each is at a higher address than the one before, and the pool is borrowed as long as any of them.
    fn next(&mut self) -> Option<&'p mut T> {
        if self.ended {
            return None;
        }
        let next = self.pool.next_live(self.at);
        self.at = next.map_or(ptr::null_mut(), NonNull::as_ptr);
        self.ended = next.is_none();
        next.map(|object| unsafe { &mut *object.as_ptr() })
    }
}

impl<T, M: Threads> FusedIterator for IterMut<'_, T, M> {}

impl<'p, T, M: Threads> IntoIterator for &'p mut Pool<T, M> {
    type Item = &'p mut T;
    type IntoIter = IterMut<'p, T, M>;
    fn into_iter(self) -> IterMut<'p, T, M> {
        self.iter_mut()
    }
}

impl<T, M: Threads> fmt::Debug for IterMut<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IterMut").finish_non_exhaustive()
    }
}
