// SPDX-License-Identifier: MIT
//
// Heaps: budgets and their end, what lives in them, what they call.

use std::alloc::Layout;
use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::{forget, size_of_val, MaybeUninit};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tidepool::{AllocError, CreateError, Heap, HeapBox, NoRoom};

const KIB: usize = 1 << 10;

fn small() -> Heap {
    Heap::builder().budget(64 * KIB).build().unwrap()
}

fn buffer(bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice())
}

#[test]
fn an_exhausted_heap_says_so_and_goes_on() {
    let heap = small();
    let layout = Layout::from_size_align(1000, 8).unwrap();
    let mut blocks = Vec::new();
    while let Ok(block) = heap.alloc(layout) {
        blocks.push(block);
    }
    assert!(blocks.len() > 32);
    assert_eq!(heap.alloc(layout), Err(AllocError));
    assert_eq!(heap.alloc_zeroed(layout), Err(AllocError));
    assert_eq!(heap.alloc_value([7u8; 1000]).unwrap_err().0[999], 7);
    assert!(heap.alloc_slice(&[1u16; 500]).is_err() && heap.alloc_str(&"x".repeat(1000)).is_err());
    let first = blocks[0];
    assert_eq!(unsafe { heap.realloc(first, layout, 60_000) }, Err(AllocError));
    let stats = heap.stats();
    assert!(stats.held_bytes <= stats.budget && stats.budget == 64 * KIB && stats.exhausted_count >= 6);
    blocks.into_iter().for_each(|block| unsafe { heap.dealloc(block, layout) });
    assert_eq!(heap.stats().live_blocks, 0);
    assert!(heap.alloc_value([7u8; 1000]).is_ok());
}

#[test]
fn an_error_has_words() {
    assert_eq!(AllocError.to_string(), "the heap is exhausted");
    assert_eq!(NoRoom(1).to_string(), "the heap is exhausted");
    assert!(CreateError::InvalidOptions.to_string().contains("contradict"));
    assert!(CreateError::OutOfMemory.to_string().contains("memory"));
}

#[test]
fn a_box_is_dropped_once_and_its_block_is_free() {
    let heap = Heap::new().unwrap();
    let drops = Rc::new(());
    let one = heap.alloc_value((drops.clone(), String::from("text"))).unwrap();
    let two = heap.alloc_value(drops.clone()).unwrap();
    assert_eq!((Rc::strong_count(&drops), heap.stats().live_blocks), (3, 2));
    drop(one);
    assert_eq!((Rc::strong_count(&drops), heap.stats().live_blocks), (2, 1));
    let moved_out = HeapBox::into_inner(two);
    assert_eq!((Rc::strong_count(&drops), heap.stats().live_blocks), (2, 0));
    drop(moved_out);
    assert_eq!(Rc::strong_count(&drops), 1);
}

#[test]
fn slices_and_texts_are_copied() {
    let heap = Heap::new().unwrap();
    let mut numbers = heap.alloc_slice(&[3u64, 1, 2]).unwrap();
    numbers.sort_unstable();
    let text = heap.alloc_str("größer").unwrap();
    assert_eq!((&*numbers, &*text, size_of_val(&*text)), (&[1u64, 2, 3][..], "größer", 8));
    assert_eq!(
        format!("{numbers:?} {text} {:?}", heap.alloc_value(1).unwrap()),
        "[1, 2, 3] größer 1"
    );
    assert!(heap.owns(numbers.as_ptr()) && std::ptr::eq(HeapBox::heap(&text), &heap));
    let empty: HeapBox<'_, [u64]> = heap.alloc_slice(&[]).unwrap();
    assert!(empty.is_empty() && heap.alloc_str("").unwrap().is_empty());
}

/// Several of each, since one may be aligned by chance. The heap is checked if the tests run with the debug library.
#[test]
fn blocks_keep_what_is_in_them() {
    for alignment in [1, 16, 64, 4096] {
        let checked = Heap::builder().checked().build();
        let heap = checked.unwrap_or_else(|_| Heap::builder().build().unwrap());
        let mut layout = Layout::from_size_align(24, alignment).unwrap();
        let mut blocks: Vec<_> = (0..9).map(|_| heap.alloc_zeroed(layout).unwrap()).collect();
        unsafe {
            for block in &blocks {
                assert!(std::slice::from_raw_parts(block.as_ptr(), 24).iter().all(|&byte| byte == 0));
                block.as_ptr().write_bytes(7, 24);
            }
            for size in [40, 100, 1100, 70_000, 300_000, 17, 1, 0] {
                for block in &mut blocks {
                    *block = heap.realloc(*block, layout, size).unwrap();
                    assert_eq!(block.as_ptr() as usize % alignment, 0);
                    assert!(std::slice::from_raw_parts(block.as_ptr(), size.min(17))
                        .iter()
                        .all(|&byte| byte == 7));
                }
                layout = Layout::from_size_align(size, alignment).unwrap();
            }
            blocks.into_iter().for_each(|block| heap.dealloc(block, layout));
        }
        assert_eq!(heap.stats().live_blocks, 0);
    }
}

#[test]
fn requests_beyond_all_memory_fail() {
    let heap = Heap::new().unwrap();
    for (size, alignment) in [(isize::MAX as usize - 4095, 1), (8, 1 << 62), (isize::MAX as usize / 2, 4096)] {
        let layout = Layout::from_size_align(size, alignment).unwrap();
        assert!(
            heap.alloc(layout).is_err() && heap.alloc_zeroed(layout).is_err(),
            "{layout:?}"
        );
    }
    assert!(heap.alloc(Layout::new::<()>()).is_ok());
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let invalid = |heap: Result<Heap, CreateError>| assert_eq!(heap.unwrap_err(), CreateError::InvalidOptions);
    invalid(Heap::builder().budget(1).build());
    invalid(Heap::builder().name("a\0b").build());
    invalid(Heap::builder().prefault().build());
    invalid(Heap::builder().budget(1 << 20).reserve(2 << 20).build());
    invalid(Heap::builder().size_classes([24]).build());
    invalid(Heap::builder().memory(buffer(16)).build());
    invalid(
        Heap::builder()
            .memory(buffer(64 * KIB))
            .purge_delay(Duration::from_secs(1))
            .build(),
    );
    let parent = Arc::new(small());
    let greedy = Heap::builder()
        .parent(parent.clone())
        .reserve(1 << 20)
        .on_exhausted(|_| true)
        .build();
    assert_eq!(greedy.unwrap_err(), CreateError::OutOfMemory);
    assert_eq!(Arc::strong_count(&parent), 1);
}

#[test]
fn options_do_what_they_say() {
    let heap = Heap::builder()
        .name("größer als einunddreißig Zeichen")
        .size_classes(vec![48, 96])
        .build()
        .unwrap();
    assert!(heap.name().starts_with("größer als"));
    assert_eq!((heap.good_size(50), heap.good_size(40)), (96, 48));
    assert!(heap.stats_json().contains("\"größer"));
    assert!(format!("{heap:?} {:?}", Heap::builder().budget(7)).contains("budget: 7"));
    let reserved = Heap::builder().reserve(1 << 20).prefault().purge_never().build().unwrap();
    assert!(reserved.stats().held_bytes >= 1 << 20);
    let wiped = Heap::builder()
        .zero_on_free()
        .budget(1 << 20)
        .purge_delay(Duration::ZERO)
        .build()
        .unwrap();
    let block = wiped.alloc_value([7u8; 100]).unwrap();
    let (start, layout) = (block.as_ptr(), Layout::new::<[u8; 100]>());
    drop(block);
    let again = wiped.alloc(layout).unwrap();
    if std::ptr::eq(again.as_ptr(), start) {
        assert!(unsafe { std::slice::from_raw_parts(start, 100) }
            .iter()
            .all(|&byte| byte == 0));
    }
    assert!(wiped.set_budget(2 << 20) && !wiped.set_budget(1) && wiped.stats().budget == 2 << 20);
    wiped.trim(0);
}

#[test]
fn a_heap_lives_in_its_buffer() {
    let memory = buffer(64 * KIB);
    let within = memory.as_ptr_range();
    let heap = Heap::builder().memory(memory).build().unwrap();
    let mut blocks = Vec::new();
    while let Ok(block) = heap.alloc_value([1u8; 64]) {
        assert!(within.contains(&block.as_ptr().cast()));
        blocks.push(block);
    }
    assert!(blocks.len() > 800);
}

#[test]
fn a_buffer_of_somebody_serves_one_heap_after_the_other() {
    let mut memory = vec![0u8; 64 * KIB];
    for _ in 0..3 {
        let heap = unsafe { Heap::builder().memory_raw(memory.as_mut_ptr(), memory.len()) }
            .build()
            .unwrap();
        assert!(heap.alloc_value([1u8; 6400]).is_ok());
    }
}

#[test]
fn a_parent_and_an_overflow_heap_end_last() {
    let all = Arc::new(Heap::builder().name("all").budget(1 << 20).build().unwrap());
    let spill = Arc::new(Heap::new().unwrap());
    let child = Heap::builder()
        .parent(all.clone())
        .overflow(spill.clone())
        .budget(64 * KIB)
        .build()
        .unwrap();
    let weak = (Arc::downgrade(&all), Arc::downgrade(&spill));
    drop((all, spill));
    let blocks: Vec<_> = (0..200).map(|i| child.alloc_value([i; 1000]).unwrap()).collect();
    assert!(child.stats().overflowed_count > 100);
    assert!(weak.1.upgrade().unwrap().owns(&*blocks[199]) && child.owns(&*blocks[0]));
    assert!(weak.0.upgrade().unwrap().stats().children_bytes == child.stats().held_bytes);
    assert!(blocks.iter().enumerate().all(|(i, block)| block[500] == i as i32 as _));
    drop(blocks);
    drop(child);
    assert!(weak.0.upgrade().is_none() && weak.1.upgrade().is_none());
}

#[test]
fn a_reset_ends_what_was_forgotten() {
    let mut heap = small();
    let drops = Rc::new(());
    for _ in 0..10 {
        let mut blocks = 0;
        while let Ok(block) = heap.alloc_value((drops.clone(), [0u8; 500])) {
            forget(block);
            blocks += 1;
        }
        assert!(blocks > 60);
        heap.reset();
        assert_eq!(heap.stats().live_blocks, 0);
    }
    assert!(Rc::strong_count(&drops) > 600); // they ended without their drop
}

#[test]
fn a_callback_makes_room() {
    let heap = Heap::builder().budget(64 * KIB);
    let heap = heap.on_exhausted(|heap| {
        assert!(heap.bytes_needed() > 0 && heap.attempt() < 64 && format!("{heap:?}").contains("attempt"));
        heap.set_budget(heap.stats().budget + 64 * KIB)
    });
    let heap = heap.build().unwrap();
    let blocks: Vec<_> = (0..500).map(|_| heap.alloc_value([0u8; 1000]).unwrap()).collect();
    assert!(heap.stats().retried_count > 0 && heap.stats().budget > 500_000);
    drop(blocks);
}

/// It owns its blocks, which borrow a heap that never ends.
#[test]
fn a_cache_drops_its_oldest() {
    type Cache = Mutex<VecDeque<HeapBox<'static, [u8; 1000]>>>;
    let cache = Arc::new(Cache::default());
    let within = cache.clone();
    let heap = Heap::builder().budget(64 * KIB).on_exhausted(move |_| {
        // Several at once: memory goes to others by the slab.
        within.try_lock().map_or(false, |mut cache| {
            let some = cache.len().min(8);
            cache.drain(..some).len() > 0
        })
    });
    let heap: &'static Heap = Box::leak(Box::new(heap.build().unwrap()));
    for i in 0..1000 {
        let block = heap.alloc_value([i as u8; 1000]).unwrap();
        cache.lock().unwrap().push_back(block);
    }
    let cache = cache.lock().unwrap();
    assert!(cache.len() > 16 && cache.back().unwrap()[0] == 999u16 as u8 && heap.stats().retried_count > 0);
}

#[test]
fn a_callback_that_panics_says_no() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let heap = Heap::builder().budget(64 * KIB).on_exhausted(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::panic::resume_unwind(Box::new("no room"))
    });
    let heap = heap.build().unwrap();
    assert!(heap.alloc(Layout::new::<[u8; 100_000]>()).is_err());
    assert_eq!((calls.load(Ordering::Relaxed), heap.stats().exhausted_count), (1, 1));
    assert!(heap.alloc_value(1).is_ok());
    drop(heap);
    assert_eq!(Arc::strong_count(&calls), 1);
}

#[test]
fn a_local_heap_has_what_is_of_its_thread() {
    let calls = Rc::new(Cell::new(0));
    let counted = calls.clone();
    let heap = Heap::local_builder().budget(64 * KIB).on_exhausted(move |_| {
        counted.set(counted.get() + 1);
        counted.get() < 3
    });
    let heap = heap.build().unwrap();
    let value = heap.alloc_value(Rc::new(1)).unwrap();
    assert!(heap.alloc(Layout::new::<[u8; 100_000]>()).is_err());
    assert_eq!((calls.get(), **value), (3, 1));
}

#[test]
fn all_threads_use_one_heap() {
    let heap = Heap::builder().budget(8 << 20).build().unwrap();
    thread::scope(|threads| {
        for seed in 0..4u64 {
            let heap = &heap;
            threads.spawn(move || {
                let mut kept: Vec<HeapBox<'_, [u64]>> = Vec::new();
                let mut dice = seed + 1;
                for _ in 0..20_000 {
                    dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if dice >> 62 == 0 || kept.len() > 200 {
                        let at = (dice >> 33) as usize % kept.len().max(1);
                        kept.get(at)
                            .into_iter()
                            .for_each(|block| assert!(block.iter().all(|&word| word == seed)));
                        (at < kept.len()).then(|| kept.swap_remove(at));
                    } else if let Ok(block) = heap.alloc_slice(&vec![seed; (dice >> 40) as usize % 300]) {
                        kept.push(block);
                    }
                }
            });
        }
    });
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn a_block_ends_in_another_thread() {
    let heap = Heap::new().unwrap();
    let value = heap.alloc_value(String::from("sent")).unwrap();
    thread::scope(|threads| threads.spawn(|| assert_eq!(*value, "sent")).join().unwrap());
    thread::scope(|threads| threads.spawn(move || drop(value)).join().unwrap());
    let heap = thread::spawn(move || heap).join().unwrap();
    assert_eq!(heap.stats().live_blocks, 0);
}
