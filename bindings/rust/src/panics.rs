// SPDX-License-Identifier: MIT
//
// A panic of a hook may not go through the C library, which called it. It is caught there, and goes on behind the call that led
// to it. A hook may call a pool in turn, so each call has a place of its own for what was thrown.

use std::any::Any;
use std::cell::Cell;
use std::mem::forget;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr;
use std::thread;

pub(crate) type Payload = Box<dyn Any + Send>;

thread_local! {
    /// Where the innermost call of this thread keeps what a hook of it throws; null outside of calls. There is nothing to drop
    /// in it, so it can be used until the thread has ended.
    static PLACE: Cell<*const Cell<Option<Payload>>> = const { Cell::new(ptr::null()) };
}

/// Runs a call of the C library that may run hooks. Returns what the first of them threw, too.
pub(crate) fn catching<R>(call: impl FnOnce() -> R) -> (R, Option<Payload>) {
    let thrown = Cell::new(None);
    let outer = PLACE.with(|place| place.replace(&thrown));
    let result = call();
    PLACE.with(|place| place.set(outer));
    (result, thrown.into_inner())
}

/// Runs a call of the C library that may run hooks, and goes on with what they threw.
pub(crate) fn passing_on<R>(call: impl FnOnce() -> R) -> R {
    let (result, thrown) = catching(call);
    go_on(thrown);
    result
}

/// A second panic would end a program that is unwinding already.
pub(crate) fn go_on(thrown: Option<Payload>) {
    match thrown {
        Some(payload) if thread::panicking() => forget(payload),
        Some(payload) => resume_unwind(payload),
        None => {}
    }
}

/// Runs the program's part of a hook. `None` if it panicked.
pub(crate) fn within_hook<R>(hook: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(hook)) {
        Ok(result) => Some(result),
        Err(payload) => {
            keep(payload);
            None
        }
    }
}

/// The first one counts. What is dropped may panic once more, so the others are not.
fn keep(payload: Payload) {
    let place = PLACE.with(Cell::get);
    if place.is_null() {
        forget(payload);
        return;
    }
    // The call whose place it is has not returned: it runs the hook.
    let place = unsafe { &*place };
    match place.take() {
        Some(first) => {
            place.set(Some(first));
            forget(payload);
        }
        None => place.set(Some(payload)),
    }
}
