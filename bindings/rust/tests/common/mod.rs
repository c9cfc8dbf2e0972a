// SPDX-License-Identifier: MIT
//
// What the tests of misbehaviour have in common.
#![allow(dead_code)] // not each of them has all of it

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tidepool::Pool;

/// What a function throws, as a text; `None` if it returns. The panic hook is not called.
pub fn thrown_by(function: impl FnOnce()) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(function)).err()?;
    Some(payload.downcast_ref::<&str>().map_or("?", |text| text).to_string())
}

pub fn throw(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

/// What a hook has to reach that was made before it; `OnceLock` is younger than this crate's Rust.
pub struct Late<T: 'static>(Mutex<Option<&'static T>>);

impl<T> Late<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub fn set(&self, value: T) -> &'static T {
        self.0.lock().unwrap().insert(Box::leak(Box::new(value)))
    }

    pub fn get(&self) -> Option<&'static T> {
        *self.0.lock().unwrap()
    }
}

/// Counts those that are alive, and throws at its end if it is told to.
pub struct Counted {
    alive: Arc<AtomicUsize>,
    pub throws: bool,
}

impl Counted {
    pub fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        let alive = alive.clone();
        Self { alive, throws: false }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        if self.throws {
            throw("a drop");
        }
    }
}

pub fn counted_pool(capacity: usize) -> (Pool<Counted>, Arc<AtomicUsize>) {
    let alive = Arc::new(AtomicUsize::new(0));
    let source = alive.clone();
    let pool = Pool::builder(move || Counted::new(&source)).capacity(capacity);
    (pool.build().unwrap(), alive)
}
