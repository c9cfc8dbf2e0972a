// SPDX-License-Identifier: MIT

use crate::heap::Heap;
use crate::sys;
use crate::threads::{Shared, Threads};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{size_of_val, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// A value in a [`Heap`], which it borrows. At its end the value is dropped and its block is free.
///
/// ```
/// let heap = tidepool::Heap::new()?;
/// let mut numbers = heap.alloc_value([3, 1, 2]).unwrap();
/// numbers.sort_unstable();
/// assert_eq!(*numbers, [1, 2, 3]);
/// # Ok::<(), tidepool::CreateError>(())
/// ```
///
/// It gives no [`Pin`](std::pin::Pin) to a value that is not `Unpin`, as `Box` does: a forgotten value may end with its heap,
/// and is not dropped then.
pub struct HeapBox<'h, T: ?Sized, M: Threads = Shared> {
    value: NonNull<T>,
    heap: &'h Heap<M>,
    _owns: PhantomData<T>,
}

// It is the only way to its value. To drop it the heap is called, which the reference answers for.
unsafe impl<T: ?Sized + Send> Send for HeapBox<'_, T, Shared> {}
unsafe impl<T: ?Sized + Sync> Sync for HeapBox<'_, T, Shared> {}

impl<'h, T: ?Sized, M: Threads> HeapBox<'h, T, M> {
    /// # Safety
    /// The value is the caller's, in a block of the heap of its own, or without size anywhere.
    pub(crate) unsafe fn from_raw_in(value: NonNull<T>, heap: &'h Heap<M>) -> Self {
        Self {
            value,
            heap,
            _owns: PhantomData,
        }
    }

    pub(crate) fn into_raw(this: Self) -> NonNull<T> {
        ManuallyDrop::new(this).value
    }

    /// Gives up the box. The value stays as long as the heap is borrowed, and is not dropped.
    ///
    /// ```
    /// let heap = tidepool::Heap::new()?;
    /// let text: &mut str = tidepool::HeapBox::leak(heap.alloc_str("stays").unwrap());
    /// assert_eq!(text, "stays");
    /// # Ok::<(), tidepool::CreateError>(())
    /// ```
    #[must_use = "what is not used is a leak"]
    pub fn leak(this: Self) -> &'h mut T
    where
        T: 'h,
    {
        unsafe { &mut *Self::into_raw(this).as_ptr() }
    }

    /// The heap that the value is in.
    #[must_use]
    pub fn heap(this: &Self) -> &'h Heap<M> {
        this.heap
    }
}

impl<T, M: Threads> HeapBox<'_, T, M> {
    /// Moves the value out of the heap.
    #[must_use]
    pub fn into_inner(this: Self) -> T {
        let block = Block::of(&this);
        let value = unsafe { ManuallyDrop::new(this).value.as_ptr().read() };
        drop(block);
        value
    }
}

/// The memory of a box, which is given back also if the drop of the value panics.
struct Block<'h, M: Threads> {
    start: *mut u8,
    size: usize,
    heap: &'h Heap<M>,
}

impl<'h, M: Threads> Block<'h, M> {
    fn of<T: ?Sized>(value: &HeapBox<'h, T, M>) -> Self {
        Self {
            start: value.value.as_ptr().cast(),
            size: size_of_val(&**value),
            heap: value.heap,
        }
    }
}

impl<M: Threads> Drop for Block<'_, M> {
    fn drop(&mut self) {
        if self.size > 0 {
            unsafe { sys::pool_heap_free(self.heap.as_raw(), self.start.cast()) };
        }
    }
}

impl<T: ?Sized, M: Threads> Drop for HeapBox<'_, T, M> {
    fn drop(&mut self) {
        let _block = Block::of(self);
        unsafe { ptr::drop_in_place(self.value.as_ptr()) };
    }
}

impl<T: ?Sized, M: Threads> Deref for HeapBox<'_, T, M> {
    type Target = T;
    fn deref(&self) -> &T {
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized, M: Threads> DerefMut for HeapBox<'_, T, M> {
    fn deref_mut(&mut self) -> &mut T {
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized, M: Threads> AsRef<T> for HeapBox<'_, T, M> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized, M: Threads> AsMut<T> for HeapBox<'_, T, M> {
    fn as_mut(&mut self) -> &mut T {
        self
    }
}

impl<T: ?Sized + fmt::Debug, M: Threads> fmt::Debug for HeapBox<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, M: Threads> fmt::Display for HeapBox<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
