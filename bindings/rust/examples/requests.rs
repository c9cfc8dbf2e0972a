// SPDX-License-Identifier: MIT
//
// A server of made-up requests. Each thread takes requests from a list, and each request is served within a budget of its
// own: one that wants too much is refused, and the others never notice. What requests need again and again, buffers, comes
// from a pool that all threads share. The program's own memory is tidepool's, too.
//
//     cargo run --example requests

use std::alloc::Layout;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use tidepool::{AllocError, Heap, HeapBox, Pool, Tidepool};

#[global_allocator]
static GLOBAL: Tidepool = Tidepool;

const REQUESTS: usize = 1000;
const THREADS: usize = 4;

/// What a request leaves: the parts of its answer, in the heap of the thread.
struct Part<'h> {
    line: HeapBox<'h, str>,
    hits: HeapBox<'h, [usize]>,
}

fn serve(heap: &Heap, buffer: &mut Vec<usize>, request: usize) -> Result<usize, AllocError> {
    let mut parts = Vec::new();
    // One request of a hundred wants far more than the others.
    let lines = if request % 100 == 99 { 50_000 } else { request % 40 };
    for number in 0..lines {
        buffer.clear();
        buffer.extend((0..50).filter(|hit| (hit * number) % 7 == 3));
        parts.push(Part {
            line: heap.alloc_str(&format!("line {number} of request {request}"))?,
            hits: heap.alloc_slice(buffer)?,
        });
    }
    Ok(parts.iter().map(|part| part.line.len() + part.hits.len()).sum())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let all = Arc::new(Heap::builder().name("requests").budget(4 << 20).build()?);
    let buffers = Pool::builder(|| Vec::with_capacity(50))
        .reset_on_put(Vec::clear)
        .capacity(THREADS)
        .build()?;
    let (next, refused, answered) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));

    thread::scope(|threads| -> Result<(), tidepool::CreateError> {
        for number in 0..THREADS {
            let heap = Heap::builder()
                .name(format!("thread {number}"))
                .budget(512 << 10)
                .parent(all.clone());
            let mut heap = heap.build()?;
            let (buffers, next, refused, answered) = (&buffers, &next, &refused, &answered);
            threads.spawn(move || {
                let mut buffer = buffers.get().expect("there is one for each thread");
                loop {
                    let request = next.fetch_add(1, Ordering::Relaxed);
                    if request >= REQUESTS {
                        break;
                    }
                    match serve(&heap, &mut buffer, request) {
                        Ok(bytes) => answered.fetch_add(bytes, Ordering::Relaxed),
                        Err(AllocError) => refused.fetch_add(1, Ordering::Relaxed),
                    };
                    heap.reset(); // nothing of the request is left, whatever it has forgotten
                }
            });
        }
        Ok(())
    })?;

    let stats = all.stats();
    println!(
        "{} bytes of answers, {} requests refused",
        answered.into_inner(),
        refused.load(Ordering::Relaxed)
    );
    println!(
        "at most {} KiB of {} KiB held",
        stats.peak_held_bytes >> 10,
        stats.budget >> 10
    );
    println!("{} KiB held by the whole program", GLOBAL.stats().held_bytes >> 10);
    assert_eq!(refused.into_inner(), REQUESTS / 100);
    assert!(stats.peak_held_bytes <= stats.budget && all.alloc(Layout::new::<u64>()).is_ok());
    Ok(())
}
