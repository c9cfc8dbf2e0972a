// SPDX-License-Identifier: MIT
//
// Whatever of the program panics while the library is at work: nothing passes through C, and nothing is lost or used twice.

mod common;

use common::{counted_pool, throw, thrown_by, Counted};
use std::mem::forget;
use std::panic::{catch_unwind, panic_any, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use tidepool::{Heap, Pool, Pooled};

#[test]
fn a_constructor_that_panics_makes_nothing() {
    let angry = Arc::new(AtomicBool::new(true));
    let asked = angry.clone();
    let pool = Pool::builder(move || if asked.load(Ordering::Relaxed) { throw("no") } else { vec![1] });
    let pool = pool.capacity(1).build().unwrap();
    for _ in 0..3 {
        assert_eq!(thrown_by(|| drop(pool.get())).as_deref(), Some("no"));
        assert_eq!(pool.live(), 0);
    }
    angry.store(false, Ordering::Relaxed);
    assert_eq!(*pool.get().unwrap(), [1]);
}

#[test]
fn a_reset_that_panics_puts_its_object_all_the_same() {
    for on_put in [true, false] {
        let pool = Pool::builder(|| 0);
        let reset = |number: &mut i32| {
            *number += 1;
            if *number % 2 == 1 {
                throw("a reset");
            }
        };
        let pool = if on_put {
            pool.reset_on_put(reset)
        } else {
            pool.reset_on_get(reset)
        };
        let pool = pool.capacity(1).build().unwrap();
        let first = thrown_by(|| drop(pool.get()));
        assert_eq!((first.is_some(), pool.live()), (on_put, 0));
        let second = thrown_by(|| drop(pool.get()));
        assert_eq!((second.is_some(), pool.live()), (!on_put, 0));
        let third = pool.get().unwrap();
        assert_eq!(*third, 2);
        forget(third);
        assert_eq!(thrown_by(|| drop(pool)), None); // what ends is not reset
    }
}

#[test]
fn an_object_that_panics_at_the_end_does_not_keep_the_others() {
    let (pool, alive) = counted_pool(10);
    let mut lent: Vec<_> = (0..10).map(|_| pool.get().unwrap()).collect();
    lent[3].throws = true;
    lent[7].throws = true;
    drop(lent);
    assert_eq!(thrown_by(|| drop(pool)).as_deref(), Some("a drop"));
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn an_object_that_panics_when_its_pool_shrinks_is_gone() {
    let alive = Arc::new(AtomicUsize::new(0));
    let source = alive.clone();
    let pool = Pool::builder(move || Counted::new(&source)).grow(0).build().unwrap();
    let mut lent: Vec<_> = (0..1000).map(|_| pool.get().unwrap()).collect();
    lent.iter_mut().for_each(|object| object.throws = true);
    drop(lent);
    assert_eq!(thrown_by(|| assert!(pool.shrink(0) < 1000)).as_deref(), Some("a drop"));
    assert_eq!((alive.load(Ordering::Relaxed), pool.live()), (0, 0));
    assert!(pool.get().is_some());
}

#[test]
fn a_checked_object_that_panics_at_its_end_is_put() {
    let alive = Arc::new(AtomicUsize::new(0));
    let source = alive.clone();
    let pool = Pool::builder(move || Counted::new(&source))
        .checked()
        .capacity(1)
        .build()
        .unwrap();
    let mut object = pool.get().unwrap();
    object.throws = true;
    assert_eq!(thrown_by(|| drop(object)).as_deref(), Some("a drop"));
    assert_eq!((pool.live(), alive.load(Ordering::Relaxed)), (0, 0));
    assert!(pool.get().is_some());
}

/// It panics once more when it is dropped.
struct Nasty;

impl Drop for Nasty {
    fn drop(&mut self) {
        throw("again");
    }
}

#[test]
fn a_payload_that_panics_is_passed_on_or_forgotten() {
    struct Throws;
    impl Drop for Throws {
        fn drop(&mut self) {
            resume_unwind(Box::new(Nasty));
        }
    }
    let pool = Pool::builder(|| Throws).capacity(5).build().unwrap();
    drop((0..5).map(|_| pool.get()).collect::<Vec<_>>());
    let payload = catch_unwind(AssertUnwindSafe(|| drop(pool))).unwrap_err();
    assert!(payload.is::<Nasty>());
    forget(payload);

    let heap = Heap::builder()
        .budget(64 << 10)
        .on_exhausted(|_| resume_unwind(Box::new(Nasty)));
    assert!(heap.build().unwrap().alloc_value([0u8; 100_000]).is_err());
}

#[test]
fn a_panic_passes_guards_and_boxes() {
    let (pool, alive) = counted_pool(3);
    let heap = Heap::new().unwrap();
    let thrown = thrown_by(|| {
        let _lent = (pool.get(), pool.get());
        let _block = heap.alloc_value(Counted::new(&alive));
        throw("a user");
    });
    assert_eq!(
        (thrown.as_deref(), pool.live(), heap.stats().live_blocks),
        (Some("a user"), 0, 0)
    );
    assert_eq!(alive.load(Ordering::Relaxed), 2); // those that stay made
}

#[test]
fn a_value_that_panics_at_its_end_frees_its_block() {
    let alive = Arc::new(AtomicUsize::new(0));
    let heap = Heap::new().unwrap();
    let mut block = heap.alloc_value(Counted::new(&alive)).unwrap_or_else(|_| unreachable!());
    block.throws = true;
    assert_eq!(thrown_by(|| drop(block)).as_deref(), Some("a drop"));
    assert_eq!((heap.stats().live_blocks, alive.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn a_function_of_retain_that_panics_leaves_the_rest() {
    let (mut pool, alive) = counted_pool(10);
    for _ in 0..10 {
        Pooled::detach(pool.get().unwrap());
    }
    let mut seen = 0;
    let thrown = thrown_by(|| {
        pool.retain(|_| {
            seen += 1;
            if seen == 5 {
                panic_any("five");
            }
            false
        });
    });
    assert_eq!(
        (thrown.as_deref(), pool.live(), alive.load(Ordering::Relaxed)),
        (Some("five"), 6, 10)
    );
}
