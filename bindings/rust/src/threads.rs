// SPDX-License-Identifier: MIT

/// Who may use a [`Heap`](crate::Heap) or a [`Pool`](crate::Pool): [`Shared`] or [`Local`].
///
/// Nothing else implements this.
pub trait Threads: sealed::Sealed {}

/// All threads may use it at once.
#[derive(Debug)]
pub enum Shared {}

/// It stays in the thread that made it, and has no locks.
///
/// The library keeps what a heap has freed near the thread that freed it, so not even an unused heap could go to another
/// thread.
#[derive(Debug)]
pub enum Local {}

impl Threads for Shared {}
impl Threads for Local {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Shared {}
    impl Sealed for super::Local {}
}
