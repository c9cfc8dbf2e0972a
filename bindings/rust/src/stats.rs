// SPDX-License-Identifier: MIT

use crate::sys;
use std::mem::size_of;
use std::os::raw::c_char;

/// What a heap holds, and for what: `held = live + cached + idle + metadata + children`, and
/// `mapped = live + cached + free + returned + metadata + children`, to the byte.
///
/// The figures are exact if no thread uses the heap meanwhile, and otherwise close.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The bound of `held_bytes`; 0 is none.
    pub budget: usize,
    /// Taken from the system or from the buffer, and not given back.
    pub held_bytes: usize,
    /// The most that `held_bytes` has been.
    pub peak_held_bytes: usize,
    /// Usable bytes of the blocks that callers have.
    pub live_bytes: usize,
    /// How many blocks callers have.
    pub live_blocks: usize,
    /// Free, and kept near the threads that will want it.
    pub cached_bytes: usize,
    /// Free, in slabs or free runs.
    pub idle_bytes: usize,
    /// The manager's own records.
    pub metadata_bytes: usize,
    /// Held by the heaps whose parent this is, and by theirs.
    pub children_bytes: usize,
    /// Requests that failed.
    pub exhausted_count: u64,
    /// How often the callback had the heap try again.
    pub retried_count: u64,
    /// Requests that the overflow heap served.
    pub overflowed_count: u64,
    /// Given back to the system, in total.
    pub purged_bytes: u64,
    /// The largest request that would be served now; exact for heaps in small memories.
    pub largest_free: usize,
    /// How many thousandths of the free bytes of a small memory are in other pieces than the longest.
    pub fragmentation: usize,
    /// Of `idle_bytes`: backed by pages.
    pub free_bytes: usize,
    /// Free and still mapped, but not backed: returned to the system, or never used.
    pub returned_bytes: usize,
    /// All addresses that are mapped; of the default heap also those that no heap holds.
    pub mapped_bytes: usize,
    /// In huge pages that the default heap asked the system for.
    pub advised_bytes: usize,
}

impl Stats {
    /// # Safety
    /// The heap is live.
    pub(crate) unsafe fn of(heap: *mut sys::pool_heap_t) -> Self {
        let mut s = sys::pool_stats_t::default();
        unsafe { sys::pool_heap_stats_sized(heap, &mut s, size_of::<sys::pool_stats_t>()) };
        Self {
            budget: s.budget,
            held_bytes: s.held_bytes,
            peak_held_bytes: s.peak_held_bytes,
            live_bytes: s.live_bytes,
            live_blocks: s.live_blocks,
            cached_bytes: s.cached_bytes,
            idle_bytes: s.idle_bytes,
            metadata_bytes: s.metadata_bytes,
            children_bytes: s.children_bytes,
            exhausted_count: s.exhausted_count,
            retried_count: s.retried_count,
            overflowed_count: s.overflowed_count,
            purged_bytes: s.purged_bytes,
            largest_free: s.largest_free,
            fragmentation: s.fragmentation,
            free_bytes: s.free_bytes,
            returned_bytes: s.returned_bytes,
            mapped_bytes: s.mapped_bytes,
            advised_bytes: s.advised_bytes,
        }
    }
}

/// The text of a function that writes as `snprintf` does, whose length may change between two calls.
pub(crate) fn text_of(write: impl Fn(*mut c_char, usize) -> usize) -> String {
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        let length = write(bytes.as_mut_ptr().cast(), bytes.len());
        if length < bytes.len() {
            bytes.truncate(length);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        bytes.resize(length + 1, 0);
    }
}
