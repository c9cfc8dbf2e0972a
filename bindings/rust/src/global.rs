// SPDX-License-Identifier: MIT

use crate::stats::{text_of, Stats};
use crate::sys;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

/// Every block is aligned to this, whatever is asked for.
pub(crate) const BLOCK_ALIGNMENT: usize = 16;

/// The process-wide manager, as the allocator of a Rust program.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: tidepool::Tidepool = tidepool::Tidepool;
///
/// let words: Vec<String> = "one two three".split(' ').map(String::from).collect();
/// assert!(GLOBAL.owns(words.as_ptr()));
/// assert!(GLOBAL.stats().live_blocks >= 4);
/// ```
///
/// It is beside the C library's `malloc`, which goes on serving whatever C code there is in the program. Programs and libraries
/// may also call it directly; the blocks of all values of this type are those of one manager.
///
/// Misuse of the unsafe functions (a pointer that is no block, a block freed twice) ends the program with one line, where it is
/// seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tidepool;

impl Tidepool {
    /// What the manager holds, and for what. What belongs to no heap counts here.
    #[must_use]
    pub fn stats(self) -> Stats {
        unsafe { Stats::of(sys::pool_heap_default()) }
    }

    /// The figures of everything in the process, all heaps and object pools, as one JSON object.
    #[must_use]
    pub fn stats_json(self) -> String {
        text_of(|buffer, size| unsafe { sys::pool_stats_json(buffer, size) })
    }

    /// Gives idle memory beyond `keep` bytes back to the system, and returns the bytes given.
    pub fn trim(self, keep: usize) -> usize {
        unsafe { sys::pool_trim(keep) }
    }

    /// Whether the address is in memory of the process-wide manager, and not of a [`Heap`](crate::Heap) or of somebody else.
    #[must_use]
    pub fn owns<T: ?Sized>(self, address: *const T) -> bool {
        unsafe { sys::pool_heap_of(address.cast()) == sys::pool_heap_default() }
    }

    /// The size of the block that a request for so many bytes gets.
    #[must_use]
    pub fn good_size(self, size: usize) -> usize {
        unsafe { sys::pool_good_size(size) }
    }
}

// The blocks of the C library are aligned to 16 in any case. A block that is aligned to more may lose that when it moves, so
// such a block is only resized where it is.
unsafe impl GlobalAlloc for Tidepool {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe {
            if layout.align() <= BLOCK_ALIGNMENT {
                sys::pool_alloc(layout.size()).cast()
            } else {
                sys::pool_aligned_alloc(layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        unsafe { sys::pool_free(block.cast()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe {
            if layout.align() <= BLOCK_ALIGNMENT {
                return sys::pool_zalloc(layout.size()).cast();
            }
            let block: *mut u8 = sys::pool_aligned_alloc(layout.align(), layout.size()).cast();
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        unsafe {
            if layout.align() <= BLOCK_ALIGNMENT {
                // A size of 0, which the caller must not ask for, would free the block.
                return sys::pool_realloc(block.cast(), new_size.max(1)).cast();
            }
            if sys::pool_resize_in_place(block.cast(), new_size) {
                return block;
            }
            let moved: *mut u8 = sys::pool_aligned_alloc(layout.align(), new_size).cast();
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                sys::pool_free(block.cast());
            }
            moved
        }
    }
}
