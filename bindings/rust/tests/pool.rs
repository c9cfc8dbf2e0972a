// SPDX-License-Identifier: MIT
//
// Pools: objects are lent, put, named and walked.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use tidepool::{CreateError, Heap, LocalPool, Pool, Pooled};

fn numbers(capacity: usize) -> LocalPool<u64> {
    let next = Cell::new(0);
    let pool = Pool::local_builder(move || {
        next.set(next.get() + 1);
        next.get()
    });
    pool.capacity(capacity).build().unwrap()
}

#[test]
fn objects_are_made_once_and_used_again() {
    let pool = numbers(2);
    assert_eq!((pool.live(), pool.capacity()), (0, 2));
    let (one, mut two) = (pool.get().unwrap(), pool.get().unwrap());
    assert!((*one, *two, pool.get().is_none(), pool.live()) == (1, 2, true, 2));
    *two = 20;
    drop(two);
    assert_eq!(*pool.get().unwrap(), 20);
    assert_eq!(format!("{one:?} {one} {pool:?}"), "1 1 Pool { live: 1, .. }");
}

#[test]
fn the_end_of_a_pool_drops_what_was_used() {
    let (made, counted) = (Rc::new(()), Cell::new(0));
    let source = made.clone();
    let pool = Pool::local_builder(move || source.clone()).capacity(100).build().unwrap();
    let three: Vec<_> = (0..3).map(|_| pool.get().unwrap()).collect();
    counted.set(Rc::strong_count(&made));
    drop(three);
    assert_eq!((counted.get(), Rc::strong_count(&made)), (5, 5));
    drop(pool);
    assert_eq!(Rc::strong_count(&made), 1);
}

#[test]
fn a_reset_runs_between_uses() {
    let on_put = Pool::builder(String::new)
        .reset_on_put(String::clear)
        .capacity(1)
        .build()
        .unwrap();
    let on_get = Pool::builder(String::new)
        .reset_on_get(|text| text.push('!'))
        .capacity(1)
        .build()
        .unwrap();
    for expected in ["", "x!", "x!x!"] {
        let mut one = on_get.get().unwrap();
        assert_eq!(*one, expected);
        one.push('x');
        let mut other = on_put.get().unwrap();
        assert!(other.is_empty());
        other.push('x');
    }
}

#[test]
fn a_checked_pool_makes_each_object_anew() {
    let pool = Pool::builder(|| vec![1])
        .reset_on_get(|_| unreachable!())
        .capacity(2)
        .checked()
        .build()
        .unwrap();
    for _ in 0..3 {
        let mut numbers = pool.get().unwrap();
        assert_eq!(*numbers, [1]);
        numbers.push(2);
    }
}

#[test]
fn a_constructor_may_have_nothing_to_give() {
    let only = Cell::new(Some(7));
    let pool = Pool::try_local_builder(move || only.take()).capacity(10).build().unwrap();
    let one = pool.get();
    assert!(one.is_some() && pool.get().is_none() && pool.live() == 1);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let invalid = |pool: Result<Pool<u8>, CreateError>| assert_eq!(pool.unwrap_err(), CreateError::InvalidOptions);
    invalid(Pool::builder(|| 1).build());
    invalid(Pool::builder(|| 1).capacity(usize::MAX).build());
    invalid(Pool::builder(|| 1).capacity(10).grow(5).build());
    invalid(Pool::builder(|| 1).capacity(1).name("a\0b").build());
    let heap = Arc::new(Heap::builder().budget(64 << 10).build().unwrap());
    let large = Pool::builder(|| [0u8; 1000]).capacity(1000).heap(heap.clone());
    assert!(format!("{large:?}").contains("1000"));
    assert_eq!(large.build().unwrap_err(), CreateError::OutOfMemory);
    assert_eq!(Arc::strong_count(&heap), 1);
}

#[test]
fn a_pool_grows_up_to_its_limit_and_shrinks() {
    let drops = Rc::new(());
    let source = drops.clone();
    let pool = Pool::local_builder(move || (source.clone(), [0u8; 100]))
        .grow(1000)
        .build()
        .unwrap();
    let mut lent: Vec<_> = std::iter::from_fn(|| pool.get()).collect();
    assert_eq!((lent.len(), pool.capacity(), Rc::strong_count(&drops)), (1000, 1000, 1002));
    lent.truncate(1);
    assert!(pool.shrink(0) < 1000 && Rc::strong_count(&drops) < 1002 && pool.live() == 1);
}

#[test]
fn a_pool_is_of_its_heap() {
    let heap = Arc::new(Heap::builder().budget(256 << 10).build().unwrap());
    let pool = Pool::builder(|| [0u8; 1000])
        .heap(heap.clone())
        .capacity(10)
        .grow(0)
        .name("of a heap")
        .build()
        .unwrap();
    let lent: Vec<_> = std::iter::from_fn(|| pool.get()).collect();
    assert!(lent.len() > 100 && heap.owns(&*lent[0]) && heap.owns(&**lent.last().unwrap()));
    assert!(heap.stats().held_bytes <= 256 << 10 && tidepool::Tidepool.stats_json().contains("of a heap"));
    let weak = Arc::downgrade(&heap);
    drop(heap);
    drop(lent);
    assert!(weak.upgrade().is_some());
    drop(pool);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_local_pool_is_of_a_local_heap() {
    let heap = Rc::new(Heap::local_builder().budget(256 << 10).build().unwrap());
    let pool = Pool::local_builder(|| 1u64)
        .local_heap(heap.clone())
        .capacity(10)
        .build()
        .unwrap();
    assert!(heap.owns(&*pool.get().unwrap()));
    drop(heap);
    assert_eq!(*pool.get().unwrap(), 1);
}

#[test]
fn handles_name_one_use() {
    let mut pool = numbers(3);
    let one = pool.get().unwrap();
    let (name, same) = (Pooled::handle(&one), Pooled::handle(&one));
    assert!(name == same && pool.is_live(name) && HashSet::from([name]).contains(&same));
    assert!(format!("{name:?}").contains("generation"));
    drop(one);
    assert!(!pool.is_live(name));
    let again = Pooled::detach(pool.get().unwrap());
    assert!(again != name && pool.get_mut(name).is_none() && !pool.put(name));
    *pool.get_mut(again).unwrap() = 77;
    assert_eq!(*pool.attach(again).unwrap(), 77);
    assert!(!pool.is_live(again) && pool.attach(again).is_none());
}

#[test]
fn a_handle_is_of_its_pool() {
    let (mut one, mut other) = (numbers(1), numbers(1));
    let (of_one, of_other) = (Pooled::detach(one.get().unwrap()), Pooled::detach(other.get().unwrap()));
    assert!(of_one != of_other && other.get_mut(of_one).is_none() && !one.put(of_other));
    std::mem::swap(&mut one, &mut other);
    assert!(other.get_mut(of_one).is_some() && one.put(of_other) && one.live() == 0);
}

#[test]
fn live_objects_are_walked_in_order() {
    let mut pool = numbers(500);
    let handles: Vec<_> = (0..500).map(|_| Pooled::detach(pool.get().unwrap())).collect();
    handles.iter().step_by(2).for_each(|&handle| assert!(pool.put(handle)));
    let mut all: Vec<&mut u64> = pool.iter_mut().collect();
    all.iter_mut().for_each(|number| **number *= 2);
    assert_eq!(all.len(), 250);
    assert!(all.windows(2).all(|pair| (&*pair[0] as *const u64) < &*pair[1]));
    let sum: u64 = (&mut pool).into_iter().map(|number| *number).sum();
    assert_eq!(sum, (1..=500).filter(|number| number % 2 == 0).sum::<u64>() * 2);
    pool.retain(|number| *number % 8 == 0);
    assert_eq!(pool.live(), 125);
    let mut walk = pool.iter_mut();
    assert_eq!((walk.by_ref().count(), walk.next()), (125, None));
    pool.clear();
    assert!(pool.live() == 0 && pool.iter_mut().next().is_none() && pool.capacity() == 500);
}

#[test]
fn another_pool_serves_when_one_is_full() {
    let (near, far) = (numbers(1), numbers(2));
    let lent: Vec<_> = std::iter::from_fn(|| near.get().or_else(|| far.get())).collect();
    assert_eq!((lent.len(), near.live(), far.live()), (3, 1, 2));
    drop(lent);
    assert_eq!((near.live(), far.live()), (0, 0));
}

#[test]
#[allow(clippy::redundant_closure)] // the type of a function itself has the lifetime in it
fn what_a_pool_has_may_borrow() {
    let text = String::from("one two three");
    let pool = Pool::builder(|| Vec::<&str>::new())
        .reset_on_put(|words| words.clear())
        .capacity(1)
        .build()
        .unwrap();
    for _ in 0..2 {
        let mut words = pool.get().unwrap();
        words.extend(text.split(' '));
        assert_eq!(words.len(), 3);
    }
}

#[test]
fn all_threads_use_one_pool() {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let pool = Pool::builder(move || (counted.fetch_add(1, Ordering::Relaxed), vec![0u32; 4]));
    let pool = pool
        .reset_on_put(|object| object.1.fill(0))
        .capacity(8)
        .grow(64)
        .build()
        .unwrap();
    thread::scope(|threads| {
        for seed in 0..4u32 {
            let pool = &pool;
            threads.spawn(move || {
                let mut lent: Vec<Pooled<'_, (usize, Vec<u32>)>> = Vec::new();
                for round in 0..20_000u32 {
                    if round % 3 == 2 || lent.len() > 20 {
                        let object = lent.swap_remove(round as usize % lent.len());
                        assert!(object.1 == [seed; 4] && pool.is_live(Pooled::handle(&object)));
                    } else if let Some(mut object) = pool.get() {
                        assert_eq!(object.1, [0; 4]);
                        object.1.fill(seed);
                        lent.push(object);
                    }
                }
            });
        }
    });
    assert_eq!(pool.live(), 0);
    assert!(made.load(Ordering::Relaxed) <= 64);
}

#[test]
fn an_object_is_put_by_another_thread() {
    let pool = Arc::new(Pool::builder(|| Cell::new(0)).capacity(1).build().unwrap()); // a T that is not Sync
    for _ in 0..10 {
        let object = pool.get().unwrap();
        thread::scope(|threads| {
            threads.spawn(move || object.set(object.get() + 1));
        });
    }
    assert_eq!(thread::spawn(move || pool.get().unwrap().get()).join().unwrap(), 10);
}
