// SPDX-License-Identifier: MIT
//
// What no program should do, by safe code alone: forget, call back into what is at work, have types of odd sizes, and outlive
// threads. Nothing of it may touch memory that is not its own.

mod common;

use common::{counted_pool, throw, thrown_by, Counted, Late};
use std::cell::{Cell, RefCell};
use std::mem::{align_of_val, forget, size_of};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use tidepool::{Handle, Heap, HeapBox, LocalHeap, LocalPool, Pool, Pooled};

// ---- forget ----

#[test]
fn a_forgotten_guard_lends_its_object_until_the_end() {
    let (mut pool, alive) = counted_pool(2);
    forget(pool.get());
    forget(pool.get());
    assert!(pool.get().is_none());
    assert_eq!(pool.iter_mut().count(), 2);
    pool.clear();
    forget(pool.get());
    assert_eq!((pool.live(), alive.load(Ordering::Relaxed)), (1, 2));
    drop(pool);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn a_forgotten_pool_keeps_its_heap() {
    let heap = Arc::new(Heap::new().unwrap());
    let pool = Pool::builder(|| 1).heap(heap.clone()).capacity(1).build().unwrap();
    let weak = Arc::downgrade(&heap);
    forget(pool);
    drop(heap);
    assert!(weak.upgrade().is_some() && weak.upgrade().unwrap().stats().live_blocks > 0);
}

#[test]
fn a_forgotten_box_and_a_forgotten_heap_are_leaks() {
    let alive = Arc::new(AtomicUsize::new(0));
    let heap = Heap::new().unwrap();
    forget(heap.alloc_value(Counted::new(&alive)).unwrap_or_else(|_| unreachable!()));
    drop(heap);
    assert_eq!(alive.load(Ordering::Relaxed), 1);
    forget(Heap::builder().name("forgotten").build().unwrap());
    assert!(tidepool::Tidepool.stats_json().contains("forgotten"));
}

// ---- calling back ----

#[test]
fn a_constructor_gets_from_its_own_pool() {
    static POOL: Late<Pool<usize>> = Late::new();
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    let pool = POOL.set(
        Pool::builder(|| {
            let depth = DEPTH.fetch_add(1, Ordering::Relaxed);
            // Those within are made first, and stay lent while this one is made.
            depth + POOL.get().unwrap().get().map_or(0, |inner| *inner)
        })
        .capacity(5)
        .build()
        .unwrap(),
    );
    assert_eq!(*pool.get().unwrap(), 1 + 2 + 3 + 4);
    assert_eq!(pool.live(), 0);
}

#[test]
fn a_reset_puts_and_gets_in_its_own_pool() {
    struct Node {
        children: Vec<Pooled<'static, Node>>,
    }
    static POOL: Late<Pool<Node>> = Late::new();
    let pool = Pool::builder(|| Node { children: Vec::new() });
    let pool = POOL.set(pool.reset_on_put(|node| node.children.clear()).grow(0).build().unwrap());
    fn tree(pool: &'static Pool<Node>, depth: usize) -> Pooled<'static, Node> {
        let mut node = pool.get().unwrap();
        if depth > 0 {
            node.children.extend((0..3).map(|_| tree(pool, depth - 1)));
        }
        node
    }
    let root = tree(pool, 5);
    assert_eq!(pool.live(), 364);
    drop(root);
    assert_eq!(pool.live(), 0);
    pool.shrink(0);
}

#[test]
fn a_panic_within_a_hook_within_a_hook_is_told_once() {
    let inner = Arc::new(Pool::builder(|| -> i32 { throw("inner") }).capacity(1).build().unwrap());
    let of_outer = inner.clone();
    let outer = Pool::builder(move || {
        let thrown = thrown_by(|| drop(of_outer.get()));
        assert_eq!(thrown.as_deref(), Some("inner"));
        7
    });
    let outer = outer.capacity(1).build().unwrap();
    assert_eq!((*outer.get().unwrap(), inner.live()), (7, 0));
    let through = inner.clone();
    let passing = Pool::builder(move || through.get().map(|number| *number))
        .capacity(1)
        .build()
        .unwrap();
    assert_eq!(thrown_by(|| drop(passing.get())).as_deref(), Some("inner"));
}

/// The first panic is on its way while the same call drops the other objects, which use pools in turn.
#[test]
fn what_one_hook_throws_is_not_thrown_into_another() {
    struct Gets(Arc<Pool<i32>>, Arc<AtomicUsize>);
    impl Drop for Gets {
        fn drop(&mut self) {
            let got = self.0.get().map(|number| *number);
            self.1.fetch_add(usize::from(got == Some(1)), Ordering::Relaxed);
            throw("the drop of one of many");
        }
    }
    let (other, drops) = (
        Arc::new(Pool::builder(|| 1).capacity(1).build().unwrap()),
        Arc::new(AtomicUsize::new(0)),
    );
    let (source, counted) = (other.clone(), drops.clone());
    let pool = Pool::builder(move || Gets(source.clone(), counted.clone()))
        .capacity(50)
        .build()
        .unwrap();
    drop((0..50).map(|_| pool.get()).collect::<Vec<_>>());
    assert!(thrown_by(|| drop(pool)).is_some());
    assert_eq!((drops.load(Ordering::Relaxed), other.live()), (50, 0));
}

#[test]
fn a_callback_uses_the_heap_that_is_exhausted() {
    static HEAP: Late<Heap> = Late::new();
    static WITHIN: AtomicBool = AtomicBool::new(false);
    let heap = Heap::builder().budget(64 << 10).on_exhausted(|_| {
        let first = !WITHIN.swap(true, Ordering::Relaxed);
        if first {
            let heap = HEAP.get().unwrap();
            assert!(heap.alloc_value([0u8; 100_000]).is_err() && heap.alloc_value(1).is_ok());
            WITHIN.store(false, Ordering::Relaxed);
        }
        false
    });
    let heap = HEAP.set(heap.build().unwrap());
    assert!(heap.alloc_value([0u8; 100_000]).is_err() && heap.stats().exhausted_count == 2);
}

#[test]
fn a_callback_gets_from_the_pool_that_grows() {
    static POOL: Late<Pool<[u8; 1000]>> = Late::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let heap = Heap::builder().budget(128 << 10).on_exhausted(move |heap| {
        let nested = counted.fetch_add(1, Ordering::Relaxed);
        let got = POOL.get().map(|pool| pool.get().is_some());
        nested > 40 && got == Some(false) && heap.stats().budget < 256 << 10 && heap.set_budget(256 << 10)
    });
    let heap = Arc::new(heap.build().unwrap());
    let pool = POOL.set(Pool::builder(|| [0; 1000]).heap(heap).grow(0).build().unwrap());
    let lent: Vec<_> = std::iter::from_fn(|| pool.get()).collect();
    assert!(lent.len() > 50 && calls.load(Ordering::Relaxed) > 0);
}

// ---- odd types ----

#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page(u8);

#[repr(align(256))]
struct Nothing;

#[test]
fn types_without_size_are_pooled_and_boxed() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Unit;
    impl Drop for Unit {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    assert_eq!((size_of::<Unit>(), size_of::<Nothing>()), (0, 0));
    let pool = Pool::builder(|| Unit).capacity(3).build().unwrap();
    let lent: Vec<_> = std::iter::from_fn(|| pool.get()).collect();
    assert_eq!(lent.len(), 3);
    drop(lent);
    drop(pool);
    assert_eq!(DROPS.swap(0, Ordering::Relaxed), 3);

    let heap = Heap::builder().budget(64 << 10).build().unwrap();
    let many: Vec<HeapBox<'_, Unit>> = (0..100_000).map(|_| heap.alloc_value(Unit).ok().unwrap()).collect();
    assert_eq!(heap.stats().live_blocks, 0);
    drop(many);
    forget(HeapBox::into_inner(heap.alloc_value(Unit).ok().unwrap()));
    assert_eq!(DROPS.load(Ordering::Relaxed), 100_000);
    assert_eq!(heap.alloc_slice(&[(); 7]).unwrap().len(), 7);
    let nothing = heap.alloc_value(Nothing).ok().unwrap();
    assert_eq!(&*nothing as *const Nothing as usize % align_of_val(&*nothing), 0);
}

#[test]
fn alignments_are_kept() {
    let pool = Pool::builder(|| Page(1)).capacity(2).grow(20).build().unwrap();
    let lent: Vec<_> = std::iter::from_fn(|| pool.get()).collect();
    assert!(
        lent.len() == 20
            && lent
                .iter()
                .all(|page| &**page as *const Page as usize % 4096 == 0 && page.0 == 1)
    );
    let places = Pool::builder(|| Nothing).checked().capacity(4).build().unwrap();
    let lent: Vec<_> = std::iter::from_fn(|| places.get()).collect();
    assert!(lent.iter().all(|nothing| &**nothing as *const Nothing as usize % 256 == 0));
    let heap = Heap::new().unwrap();
    let (page, pages) = (
        heap.alloc_value(Page(2)).ok().unwrap(),
        heap.alloc_slice(&[Page(3); 3]).unwrap(),
    );
    assert!(&*page as *const Page as usize % 4096 == 0 && pages.as_ptr() as usize % 4096 == 0);
    assert!(pages.iter().all(|page| page.0 == 3));
    let bytes = Pool::builder(|| (1u8, 2u8, 3u8)).capacity(100).build().unwrap();
    let lent: Vec<_> = std::iter::from_fn(|| bytes.get()).collect();
    assert!(lent.iter().all(|three| **three == (1, 2, 3)));
}

// ---- ends ----

#[test]
fn what_a_thread_keeps_ends_with_it() {
    static POOL: Late<Pool<Vec<u8>>> = Late::new();
    static HEAP: Late<Heap> = Late::new();
    struct Kept {
        _lent: Pooled<'static, Vec<u8>>,
        _boxed: HeapBox<'static, [u8; 100]>,
        pool: LocalPool<String>,
        heap: LocalHeap,
    }
    impl Drop for Kept {
        fn drop(&mut self) {
            assert!(self.pool.get().unwrap().is_empty() && self.heap.alloc_value(7).is_ok());
            drop(POOL.get().unwrap().get());
        }
    }
    thread_local!(static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) });
    let pool = POOL.set(Pool::builder(Vec::new).reset_on_put(Vec::clear).grow(0).build().unwrap());
    let heap = HEAP.set(Heap::new().unwrap());
    for _ in 0..20 {
        let ended = thread::spawn(move || {
            let local = Heap::local_builder().build().unwrap();
            let kept = Kept {
                _lent: pool.get().unwrap(),
                _boxed: heap.alloc_value([1; 100]).unwrap(),
                pool: Pool::local_builder(String::new).capacity(2).build().unwrap(),
                heap: local,
            };
            KEPT.with(|place| *place.borrow_mut() = Some(kept));
        });
        ended.join().unwrap();
    }
    assert_eq!((pool.live(), heap.stats().live_blocks), (0, 0));
}

#[test]
fn a_pool_ends_in_another_thread() {
    let (pool, alive) = counted_pool(100);
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..25).for_each(|_| forget(pool.get().unwrap())));
        }
    });
    assert_eq!((alive.load(Ordering::Relaxed), pool.live()), (100, 100));
    thread::spawn(move || drop(pool)).join().unwrap();
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn handles_of_what_is_gone_lead_nowhere() {
    let mut pool = Pool::local_builder(|| 1u32).grow(0).build().unwrap();
    let old: Vec<Handle<u32>> = (0..1000).map(|_| Pooled::detach(pool.get().unwrap())).collect();
    pool.clear();
    pool.shrink(0);
    assert!(old
        .iter()
        .all(|&handle| !pool.is_live(handle) && pool.get_mut(handle).is_none()));
    let new: Vec<_> = (0..1000).map(|_| Pooled::detach(pool.get().unwrap())).collect();
    assert!(old.iter().all(|&handle| !pool.put(handle)) && new.iter().all(|&handle| pool.put(handle)));
    let gone = new[0];
    drop(pool);
    let mut next = Pool::local_builder(|| 1u32).capacity(1000).build().unwrap();
    forget(next.get());
    assert!(next.get_mut(gone).is_none());
}

#[test]
fn guards_and_pools_are_swapped() {
    let (one, other) = (counted_pool(1), counted_pool(1));
    let (mut of_one, mut of_other) = (one.0.get().unwrap(), other.0.get().unwrap());
    std::mem::swap(&mut of_one, &mut of_other);
    drop(of_one);
    assert_eq!((one.0.live(), other.0.live()), (1, 0));
    std::mem::swap(&mut *of_other, &mut other.0.get().unwrap());
    drop(of_other);
    let alive = (one.1.clone(), other.1.clone());
    drop(one);
    assert_eq!((alive.0.load(Ordering::Relaxed), alive.1.load(Ordering::Relaxed)), (1, 0));
    drop(other);
    assert_eq!(alive.0.load(Ordering::Relaxed), 0);
}

#[test]
fn hooks_and_callbacks_are_dropped_once() {
    let owned = Rc::new(Cell::new(0));
    let (a, b, c) = (owned.clone(), owned.clone(), owned.clone());
    let pool = Pool::local_builder(move || a.get())
        .reset_on_put(move |_| b.set(1))
        .capacity(1)
        .build()
        .unwrap();
    let heap = Heap::local_builder().on_exhausted(move |_| c.get() > 0).build().unwrap();
    drop(pool.get());
    assert_eq!((Rc::strong_count(&owned), owned.get()), (4, 1));
    drop((pool, heap));
    assert_eq!(Rc::strong_count(&owned), 1);
    let d = owned.clone();
    assert!(Pool::local_builder(move || d.get()).build().is_err()); // no capacity
    let e = owned.clone();
    assert!(Heap::local_builder()
        .budget(1)
        .on_exhausted(move |_| e.get() > 0)
        .build()
        .is_err());
    assert_eq!(Rc::strong_count(&owned), 1);
}

/// Threads get, put, grow, shrink and panic in one pool, in a heap whose callback gets in it.
#[test]
fn threads_do_all_of_it_at_once() {
    static POOL: Late<Pool<Vec<usize>>> = Late::new();
    let heap = Heap::builder()
        .budget(256 << 10)
        .on_exhausted(|_| POOL.get().map_or(false, |pool| pool.get().is_some()));
    let heap = Arc::new(heap.build().unwrap());
    let calls = AtomicUsize::new(0);
    let pool = Pool::builder(move || match calls.fetch_add(1, Ordering::Relaxed) % 7 {
        6 => throw("a constructor"),
        _ => Vec::new(),
    });
    let pool = pool.reset_on_put(|numbers| {
        numbers.clear();
        if numbers.capacity() > 40 {
            numbers.shrink_to_fit();
            throw("a reset");
        }
    });
    let pool = POOL.set(pool.heap(heap).grow(0).build().unwrap());
    let lost = Mutex::new(0);
    thread::scope(|threads| {
        for thread in 0..4usize {
            let lost = &lost;
            threads.spawn(move || {
                let mut lent: Vec<Pooled<'_, Vec<usize>>> = Vec::new();
                for round in 0..3000usize {
                    if let Ok(Some(mut numbers)) = catch_unwind(AssertUnwindSafe(|| pool.get())) {
                        assert!(numbers.is_empty());
                        numbers.extend(std::iter::repeat(thread).take(round % 50));
                        lent.push(numbers);
                    }
                    if lent.len() > 1 + round % 90 {
                        let numbers = lent.swap_remove(round % lent.len());
                        assert!(numbers.iter().all(|&number| number == thread));
                        *lost.lock().unwrap() += usize::from(thrown_by(|| drop(numbers)).is_some());
                    }
                    if round % 500 == 499 {
                        lent.drain(..).for_each(|numbers| drop(thrown_by(|| drop(numbers))));
                        pool.shrink(round % 30);
                    }
                }
                lent.drain(..).for_each(|numbers| drop(thrown_by(|| drop(numbers))));
            });
        }
    });
    assert!(pool.live() == 0 && *lost.lock().unwrap() > 0);
}
