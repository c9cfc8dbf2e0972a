// SPDX-License-Identifier: MIT

//! Rust for tidepool, a size-class segregated memory manager in C for Linux.
//!
//! - [`Tidepool`] is the process-wide manager as a `#[global_allocator]`.
//! - [`Heap`] is a manager of its own for one subsystem: it has a budget, a policy for when that is used up, figures, and an
//!   end that takes every block with it. [`HeapBox`] is a value in one.
//! - [`Pool`] has objects that are got and put instead of made and dropped. [`Pooled`] is one that is lent, and a [`Handle`]
//!   the name of one use.
//! - [`sys`] is the C interface, for the rest.
//!
//! No safe function leads to undefined behaviour, whatever is forgotten, panics or calls back. What the C library finds to be
//! misuse, by unsafe code, ends the program with one line.
//!
//! The crate needs libtidepool: `pkg-config` finds an installed one, and `TIDEPOOL_LIB_DIR` names the folder of any other. The
//! feature `static` links `libtidepool.a`.
#![warn(
    missing_docs,
    missing_debug_implementations,
    rust_2018_idioms,
    unsafe_op_in_unsafe_fn,
    unreachable_pub
)]

mod error;
mod global;
mod heap;
mod heap_box;
mod heap_options;
#[cfg(doctest)]
mod must_not_compile;
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
mod panics;
mod pool;
mod pool_options;
mod pooled;
mod stats;
pub mod sys;
mod threads;

pub use error::{AllocError, CreateError, NoRoom};
pub use global::Tidepool;
pub use heap::{Heap, LocalHeap};
pub use heap_box::HeapBox;
pub use heap_options::{Exhausted, HeapBuilder};
pub use pool::{LocalPool, Pool};
pub use pool_options::PoolBuilder;
pub use pooled::{Handle, IterMut, Pooled};
pub use stats::Stats;
pub use threads::{Local, Shared, Threads};
