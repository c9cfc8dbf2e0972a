// SPDX-License-Identifier: MIT

//! The C interface: `version.h`, `pool.h`, `heap.h`, `object_pool.h` and `stats.h` under the names that they have there.
//!
//! The headers say what each function promises. This is for what the rest of the crate does not have, together with
//! [`Heap::as_raw`](crate::Heap::as_raw) and [`Pool::as_raw`](crate::Pool::as_raw). A test compares all of it with the headers.
#![allow(non_camel_case_types)]

use std::marker::{PhantomData, PhantomPinned};
use std::os::raw::{c_char, c_int, c_uint, c_void};

/// A heap of `heap.h`.
#[repr(C)]
#[derive(Debug)]
pub struct pool_heap_t {
    _opaque: [u8; 0],
    _neither_sent_nor_moved: PhantomData<(*mut u8, PhantomPinned)>,
}

/// An object pool of `object_pool.h`.
#[repr(C)]
#[derive(Debug)]
pub struct object_pool_t {
    _opaque: [u8; 0],
    _neither_sent_nor_moved: PhantomData<(*mut u8, PhantomPinned)>,
}

/// What a heap calls that cannot serve a request.
pub type pool_exhausted_fn =
    Option<unsafe extern "C" fn(heap: *mut pool_heap_t, bytes_needed: usize, attempt: c_uint, context: *mut c_void) -> bool>;

/// What a walk calls with each block.
pub type pool_visit_fn = Option<unsafe extern "C" fn(block: *const pool_block_t, context: *mut c_void) -> bool>;

/// One thread alone uses the heap.
pub const POOL_HEAP_SINGLE_THREAD: c_uint = 1 << 0;
/// The reserve is touched at creation, and kept.
pub const POOL_HEAP_PREFAULT: c_uint = 1 << 1;
/// The reserve or the memory is locked.
pub const POOL_HEAP_LOCK_MEMORY: c_uint = 1 << 2;
/// Nothing of a returned block stays in memory.
pub const POOL_HEAP_ZERO_ON_FREE: c_uint = 1 << 3;
/// Blocks are filled and checked.
pub const POOL_HEAP_CHECKED: c_uint = 1 << 4;
/// Each block knows where it was allocated.
pub const POOL_HEAP_SITES: c_uint = 1 << 5;
/// Blocks end at inaccessible pages.
pub const POOL_HEAP_GUARDED: c_uint = 1 << 6;
/// Blocks are cut out of one piece.
pub const POOL_HEAP_DENSE: c_uint = 1 << 7;
/// Idle memory is kept for ever.
pub const POOL_PURGE_NEVER: c_uint = 0xffff_ffff;

/// A get from a full pool fails.
pub const OBJECT_POOL_FAIL: c_uint = 0;
/// A full pool gets more memory.
pub const OBJECT_POOL_GROW: c_uint = 1;
/// A full pool takes an object from its user.
pub const OBJECT_POOL_EVICT: c_uint = 2;
/// Another pool serves when one is full.
pub const OBJECT_POOL_OVERFLOW: c_uint = 3;
/// An object is reset before it is used again.
pub const OBJECT_POOL_RESET_ON_GET: c_uint = 0;
/// An object is reset when it comes back.
pub const OBJECT_POOL_RESET_ON_PUT: c_uint = 1;
/// One thread alone uses the pool.
pub const OBJECT_POOL_SINGLE_THREAD: c_uint = 1 << 0;
/// Objects that were put are destructed, filled and checked.
pub const OBJECT_POOL_CHECKED: c_uint = 1 << 1;

/// The options of a heap. A field that is 0 or null is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // heap.h describes each
pub struct pool_heap_options_t {
    pub name: *const c_char,
    pub budget: usize,
    pub reserve: usize,
    pub parent: *mut pool_heap_t,
    pub on_exhausted: pool_exhausted_fn,
    pub overflow: *mut pool_heap_t,
    pub context: *mut c_void,
    pub memory: *mut c_void,
    pub memory_size: usize,
    pub size_classes: *const usize,
    pub size_class_count: usize,
    pub purge_delay_ms: c_uint,
    pub flags: c_uint,
}

/// A block of a walk.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct pool_block_t {
    pub start: *mut c_void,
    pub size: usize,
    pub site: *const c_void,
}

/// The figures of a heap.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)] // crate::Stats has the same fields
pub struct pool_stats_t {
    pub budget: usize,
    pub held_bytes: usize,
    pub peak_held_bytes: usize,
    pub live_bytes: usize,
    pub live_blocks: usize,
    pub cached_bytes: usize,
    pub idle_bytes: usize,
    pub metadata_bytes: usize,
    pub children_bytes: usize,
    pub exhausted_count: u64,
    pub retried_count: u64,
    pub overflowed_count: u64,
    pub purged_bytes: u64,
    pub largest_free: usize,
    pub fragmentation: usize,
    pub free_bytes: usize,
    pub returned_bytes: usize,
    pub mapped_bytes: usize,
    pub advised_bytes: usize,
}

/// The options of an object pool. A field that is 0 or null is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // object_pool.h describes each
pub struct object_pool_options_t {
    pub name: *const c_char,
    pub object_size: usize,
    pub alignment: usize,
    pub capacity: usize,
    pub max_capacity: usize,
    pub when_full: c_uint,
    pub construct: Option<unsafe extern "C" fn(object: *mut c_void, context: *mut c_void) -> bool>,
    pub reset: Option<unsafe extern "C" fn(object: *mut c_void, context: *mut c_void)>,
    pub destruct: Option<unsafe extern "C" fn(object: *mut c_void, context: *mut c_void)>,
    pub reset_time: c_uint,
    pub choose_victim: Option<unsafe extern "C" fn(pool: *mut object_pool_t, context: *mut c_void) -> *mut c_void>,
    pub overflow: *mut object_pool_t,
    pub heap: *mut pool_heap_t,
    pub context: *mut c_void,
    pub flags: c_uint,
}

/// A name for one use of an object.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub struct object_pool_handle_t {
    pub index: u32,
    pub generation: u32,
}

#[allow(missing_docs)] // the headers describe each
extern "C" {
    #[link_name = "tidepool_version"]
    pub fn pool_version() -> *const c_char;
    #[link_name = "tidepool_error"]
    pub fn pool_error() -> *const c_char;
    #[link_name = "tidepool_alloc"]
    pub fn pool_alloc(size: usize) -> *mut c_void;
    #[link_name = "tidepool_zalloc"]
    pub fn pool_zalloc(size: usize) -> *mut c_void;
    #[link_name = "tidepool_calloc"]
    pub fn pool_calloc(count: usize, size: usize) -> *mut c_void;
    #[link_name = "tidepool_realloc"]
    pub fn pool_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    #[link_name = "tidepool_aligned_alloc"]
    pub fn pool_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    #[link_name = "tidepool_free"]
    pub fn pool_free(block: *mut c_void);
    #[link_name = "tidepool_free_sized"]
    pub fn pool_free_sized(block: *mut c_void, size: usize);
    #[link_name = "tidepool_alloc_batch"]
    pub fn pool_alloc_batch(size: usize, blocks: *mut *mut c_void, count: usize) -> usize;
    #[link_name = "tidepool_free_batch"]
    pub fn pool_free_batch(blocks: *mut *mut c_void, count: usize);
    #[link_name = "tidepool_resize_in_place"]
    pub fn pool_resize_in_place(block: *mut c_void, size: usize) -> bool;
    #[link_name = "tidepool_usable_size"]
    pub fn pool_usable_size(block: *const c_void) -> usize;
    #[link_name = "tidepool_good_size"]
    pub fn pool_good_size(size: usize) -> usize;
    #[link_name = "tidepool_trim"]
    pub fn pool_trim(keep: usize) -> usize;
    #[link_name = "tidepool_background_start"]
    pub fn pool_background_start() -> bool;
    #[link_name = "tidepool_background_stop"]
    pub fn pool_background_stop();
    #[link_name = "tidepool_in_use"]
    pub fn pool_in_use(address: *const c_void) -> bool;
    #[link_name = "tidepool_block_start"]
    pub fn pool_block_start(address: *const c_void, size: *mut usize) -> *mut c_void;
    #[link_name = "tidepool_heap_of"]
    pub fn pool_heap_of(address: *const c_void) -> *mut pool_heap_t;
    #[link_name = "tidepool_option_set"]
    pub fn pool_option_set(key: *const c_char, value: *const c_char) -> bool;

    #[link_name = "tidepool_heap_create"]
    pub fn pool_heap_create_sized(options: *const pool_heap_options_t, size: usize) -> *mut pool_heap_t;
    #[link_name = "tidepool_heap_destroy"]
    pub fn pool_heap_destroy(heap: *mut pool_heap_t);
    #[link_name = "tidepool_heap_reset"]
    pub fn pool_heap_reset(heap: *mut pool_heap_t);
    #[link_name = "tidepool_heap_trim"]
    pub fn pool_heap_trim(heap: *mut pool_heap_t, keep: usize) -> usize;
    #[link_name = "tidepool_heap_set_budget"]
    pub fn pool_heap_set_budget(heap: *mut pool_heap_t, budget: usize) -> bool;
    #[link_name = "tidepool_heap_alloc"]
    pub fn pool_heap_alloc(heap: *mut pool_heap_t, size: usize) -> *mut c_void;
    #[link_name = "tidepool_heap_zalloc"]
    pub fn pool_heap_zalloc(heap: *mut pool_heap_t, size: usize) -> *mut c_void;
    #[link_name = "tidepool_heap_calloc"]
    pub fn pool_heap_calloc(heap: *mut pool_heap_t, count: usize, size: usize) -> *mut c_void;
    #[link_name = "tidepool_heap_realloc"]
    pub fn pool_heap_realloc(heap: *mut pool_heap_t, block: *mut c_void, size: usize) -> *mut c_void;
    #[link_name = "tidepool_heap_aligned_alloc"]
    pub fn pool_heap_aligned_alloc(heap: *mut pool_heap_t, alignment: usize, size: usize) -> *mut c_void;
    #[link_name = "tidepool_heap_good_size"]
    pub fn pool_heap_good_size(heap: *const pool_heap_t, size: usize) -> usize;
    #[link_name = "tidepool_heap_largest"]
    pub fn pool_heap_largest(heap: *mut pool_heap_t) -> usize;
    #[link_name = "tidepool_heap_least_memory"]
    pub fn pool_heap_least_memory_sized(options: *const pool_heap_options_t, size: usize) -> usize;
    #[link_name = "tidepool_heap_free"]
    pub fn pool_heap_free(heap: *mut pool_heap_t, block: *mut c_void);
    #[link_name = "tidepool_heap_default"]
    pub fn pool_heap_default() -> *mut pool_heap_t;
    #[link_name = "tidepool_heap_name"]
    pub fn pool_heap_name(heap: *const pool_heap_t) -> *const c_char;
    #[link_name = "tidepool_heap_walk"]
    pub fn pool_heap_walk(heap: *mut pool_heap_t, visit: pool_visit_fn, context: *mut c_void) -> bool;
    #[link_name = "tidepool_heap_report"]
    pub fn pool_heap_report(heap: *mut pool_heap_t, fd: c_int) -> bool;
    #[link_name = "tidepool_forbid_system_calls"]
    pub fn pool_forbid_system_calls(forbid: bool) -> bool;

    #[link_name = "tidepool_heap_stats"]
    pub fn pool_heap_stats_sized(heap: *mut pool_heap_t, stats: *mut pool_stats_t, size: usize) -> bool;
    #[link_name = "tidepool_heap_stats_json"]
    pub fn pool_heap_stats_json(heap: *mut pool_heap_t, buffer: *mut c_char, size: usize) -> usize;
    #[link_name = "tidepool_stats_json"]
    pub fn pool_stats_json(buffer: *mut c_char, size: usize) -> usize;

    #[link_name = "tidepool_profile_start"]
    pub fn pool_profile_start(sample_bytes: u64) -> bool;
    #[link_name = "tidepool_profile_stop"]
    pub fn pool_profile_stop();
    #[link_name = "tidepool_profile_write"]
    pub fn pool_profile_write(heap: *mut pool_heap_t, fd: c_int) -> bool;

    #[link_name = "tidepool_object_pool_create"]
    pub fn object_pool_create_sized(options: *const object_pool_options_t, size: usize) -> *mut object_pool_t;
    #[link_name = "tidepool_object_pool_destroy"]
    pub fn object_pool_destroy(pool: *mut object_pool_t);
    #[link_name = "tidepool_object_pool_get"]
    pub fn object_pool_get(pool: *mut object_pool_t) -> *mut c_void;
    #[link_name = "tidepool_object_pool_put"]
    pub fn object_pool_put(pool: *mut object_pool_t, object: *mut c_void);
    #[link_name = "tidepool_object_pool_get_batch"]
    pub fn object_pool_get_batch(pool: *mut object_pool_t, objects: *mut *mut c_void, count: usize) -> usize;
    #[link_name = "tidepool_object_pool_put_batch"]
    pub fn object_pool_put_batch(pool: *mut object_pool_t, objects: *mut *mut c_void, count: usize);
    #[link_name = "tidepool_object_pool_put_all"]
    pub fn object_pool_put_all(pool: *mut object_pool_t);
    #[link_name = "tidepool_object_pool_in_use"]
    pub fn object_pool_in_use(pool: *const object_pool_t, object: *const c_void) -> bool;
    #[link_name = "tidepool_object_pool_next"]
    pub fn object_pool_next(pool: *const object_pool_t, previous: *const c_void) -> *mut c_void;
    #[link_name = "tidepool_object_pool_live"]
    pub fn object_pool_live(pool: *const object_pool_t) -> usize;
    #[link_name = "tidepool_object_pool_capacity"]
    pub fn object_pool_capacity(pool: *const object_pool_t) -> usize;
    #[link_name = "tidepool_object_pool_shrink"]
    pub fn object_pool_shrink(pool: *mut object_pool_t, capacity: usize) -> usize;
    #[link_name = "tidepool_object_pool_handle"]
    pub fn object_pool_handle(pool: *const object_pool_t, object: *const c_void) -> object_pool_handle_t;
    #[link_name = "tidepool_object_pool_resolve"]
    pub fn object_pool_resolve(pool: *const object_pool_t, handle: object_pool_handle_t) -> *mut c_void;
}
