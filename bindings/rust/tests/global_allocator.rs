// SPDX-License-Identifier: MIT
//
// A program all of whose memory is tidepool's.
#![warn(unsafe_op_in_unsafe_fn)]

use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::slice;
use std::sync::mpsc;
use std::thread;
use tidepool::Tidepool;

#[global_allocator]
static GLOBAL: Tidepool = Tidepool;

#[test]
fn collections_are_in_it() {
    let mut words: HashMap<String, Vec<usize>> = HashMap::new();
    let mut ordered = BTreeMap::new();
    let mut queue = VecDeque::new();
    for i in 0..50_000usize {
        words.entry(format!("word {}", i % 997)).or_default().push(i);
        ordered.insert(i.wrapping_mul(2654435761) % 100_003, i.to_string());
        queue.push_back(Box::new(i));
        if i % 3 == 0 {
            queue.pop_front();
        }
    }
    assert_eq!(words.values().map(Vec::len).sum::<usize>(), 50_000);
    assert!(words
        .iter()
        .all(|(word, at)| at.iter().all(|i| *word == format!("word {}", i % 997))));
    assert!(ordered
        .iter()
        .all(|(key, i)| i.parse::<usize>().unwrap().wrapping_mul(2654435761) % 100_003 == *key));
    assert!(queue.iter().zip(queue.iter().skip(1)).all(|(one, next)| **one + 1 == **next));
    assert!(GLOBAL.owns(words["word 7"].as_ptr()) && GLOBAL.owns(&**queue.front().unwrap()));
    let stats = GLOBAL.stats();
    assert!(stats.live_blocks > 50_000 && stats.held_bytes >= stats.live_bytes);
    assert!(!GLOBAL.owns(&stats) && GLOBAL.stats_json().contains("heaps"));
}

#[test]
fn blocks_go_from_thread_to_thread() {
    let (send, receive) = mpsc::channel::<(usize, Vec<u8>)>();
    let makers: Vec<_> = (0..4)
        .map(|maker| {
            let send = send.clone();
            thread::spawn(move || {
                for i in 0..5_000 {
                    send.send((maker, vec![maker as u8; 1 + i % 3000])).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let mut bytes = [0; 4];
    for (maker, block) in receive {
        assert!(block.iter().all(|&byte| byte == maker as u8));
        bytes[maker] += block.len();
    }
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    assert!(bytes.iter().all(|&sum| sum == bytes[0] && sum > 0));
}

/// Looks at both ends, where a block may be cut or meet another one.
unsafe fn has(block: *const u8, size: usize, byte: u8) -> bool {
    let end = size.min(5000);
    let (first, last) = unsafe {
        (
            slice::from_raw_parts(block, end),
            slice::from_raw_parts(block.add(size - end), end),
        )
    };
    first.iter().chain(last).all(|&at| at == byte)
}

/// Several of each, since one may be aligned by chance.
#[test]
fn every_layout_is_served() {
    for alignment in (0..16).map(|log2| 1usize << log2) {
        let layout = |size| Layout::from_size_align(size, alignment).unwrap();
        for size in [1, 7, 16, 40, 100, 4096, 70_000, 2_000_000] {
            unsafe {
                let dirty = alloc(layout(size));
                assert!(!dirty.is_null() && dirty as usize % alignment == 0);
                dirty.write_bytes(0xa5, size);
                dealloc(dirty, layout(size));
                let mut blocks: Vec<_> = (0..5).map(|_| alloc_zeroed(layout(size))).collect();
                for block in &mut blocks {
                    assert!(*block as usize % alignment == 0 && GLOBAL.owns(*block) && has(*block, size, 0));
                    block.write_bytes(7, size);
                    *block = realloc(*block, layout(size), size * 3);
                    assert!(*block as usize % alignment == 0 && has(*block, size, 7));
                }
                for block in blocks {
                    let shrunk = realloc(block, layout(size * 3), size.min(16));
                    assert!(shrunk as usize % alignment == 0 && has(shrunk, size.min(16), 7));
                    dealloc(shrunk, layout(size.min(16)));
                }
            }
        }
    }
}

#[test]
fn more_than_there_is_is_null() {
    for (size, alignment) in [(isize::MAX as usize - 4095, 1), (isize::MAX as usize / 2, 4096), (8, 1 << 62)] {
        let layout = Layout::from_size_align(size, alignment).unwrap();
        unsafe {
            assert!(GLOBAL.alloc(layout).is_null() && GLOBAL.alloc_zeroed(layout).is_null());
        }
    }
    let small = Layout::from_size_align(100, 64).unwrap();
    unsafe {
        let block = GLOBAL.alloc(small);
        block.write_bytes(7, 100);
        assert!(GLOBAL.realloc(block, small, isize::MAX as usize - 4095).is_null());
        assert!(has(block, 100, 7));
        GLOBAL.dealloc(block, small);
    }
    assert!(Vec::<u8>::new().try_reserve(isize::MAX as usize - 1).is_err());
}

#[test]
fn questions_have_answers() {
    let blocks: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 4000]).collect();
    assert!(GLOBAL.stats().live_bytes >= 8_000_000 && GLOBAL.good_size(100) >= 100);
    drop(blocks);
    GLOBAL.trim(0);
    assert!(GLOBAL.stats().purged_bytes > 0);
}
