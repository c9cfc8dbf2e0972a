// SPDX-License-Identifier: MIT

use std::error::Error;
use std::fmt;
use std::io;

/// Why a heap or a pool was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateError {
    /// The options contradict each other, or a buffer or budget is too small for what the heap itself needs.
    InvalidOptions,
    /// There is no memory, or the budget of a heap has no room.
    OutOfMemory,
}

impl CreateError {
    /// Of the call of the C library that has just failed in this thread.
    pub(crate) fn last() -> Self {
        const EINVAL: i32 = 22;
        match io::Error::last_os_error().raw_os_error() {
            Some(EINVAL) => Self::InvalidOptions,
            _ => Self::OutOfMemory,
        }
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidOptions => "the options contradict each other, or leave too little room",
            Self::OutOfMemory => "there is no memory for it, or no room in a budget",
        })
    }
}

impl Error for CreateError {}

/// The heap is exhausted: its budget, its callback and its overflow heap had nothing for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the heap is exhausted")
    }
}

impl Error for AllocError {}

/// The heap is exhausted, and here is the value that it had no room for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NoRoom<T>(pub T);

impl<T> fmt::Debug for NoRoom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoRoom(..)")
    }
}

impl<T> fmt::Display for NoRoom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        AllocError.fmt(f)
    }
}

impl<T> Error for NoRoom<T> {}
