// SPDX-License-Identifier: MIT

//! What the types refuse. Each of these would be a use of memory that has another user, or none. The code of the error is
//! compared where rustdoc can: with `RUSTC_BOOTSTRAP=1 cargo test --doc`.
//!
//! A value in a heap that has ended, that is reset, or whose reference was leaked:
//!
//! ```compile_fail,E0505
//! let heap = tidepool::Heap::new().unwrap();
//! let number = heap.alloc_value(7).unwrap();
//! drop(heap);
//! println!("{}", *number);
//! ```
//!
//! ```compile_fail,E0502
//! let mut heap = tidepool::Heap::new().unwrap();
//! let number = heap.alloc_value(7).unwrap();
//! heap.reset();
//! println!("{}", *number);
//! ```
//!
//! ```compile_fail,E0502
//! let mut heap = tidepool::Heap::new().unwrap();
//! let number: &mut i32 = tidepool::HeapBox::leak(heap.alloc_value(7).unwrap());
//! heap.reset();
//! println!("{}", *number);
//! ```
//!
//! A heap that others need:
//!
//! ```compile_fail,E0596
//! let heap = std::sync::Arc::new(tidepool::Heap::new().unwrap());
//! let pool = tidepool::Pool::builder(String::new).heap(heap.clone()).capacity(1).build().unwrap();
//! heap.reset();
//! ```
//!
//! What is of one thread, in another one:
//!
//! ```compile_fail,E0277
//! let heap = tidepool::Heap::local_builder().build().unwrap();
//! std::thread::spawn(move || drop(heap));
//! ```
//!
//! ```compile_fail,E0277
//! let heap = tidepool::Heap::local_builder().build().unwrap();
//! std::thread::scope(|threads| { threads.spawn(|| heap.stats()); });
//! ```
//!
//! ```compile_fail,E0277
//! let heap = tidepool::Heap::local_builder().build().unwrap();
//! let number = heap.alloc_value(7).unwrap();
//! std::thread::scope(|threads| { threads.spawn(move || drop(number)); });
//! ```
//!
//! ```compile_fail,E0277
//! let pool = tidepool::Pool::local_builder(String::new).capacity(1).build().unwrap();
//! std::thread::spawn(move || drop(pool));
//! ```
//!
//! ```compile_fail,E0277
//! let pool = tidepool::Pool::builder(|| std::rc::Rc::new(1)).capacity(1).build().unwrap();
//! std::thread::scope(|threads| { threads.spawn(|| drop(pool.get())); });
//! ```
//!
//! ```compile_fail,E0277
//! let counter = std::rc::Rc::new(1);
//! let pool = tidepool::Pool::builder(move || *counter).capacity(1).build().unwrap();
//! ```
//!
//! ```compile_fail,E0277
//! let counter = std::rc::Rc::new(1);
//! let heap = tidepool::Heap::builder().on_exhausted(move |_| *counter > 1).build().unwrap();
//! ```
//!
//! A shared pool in a heap of one thread:
//!
//! ```compile_fail,E0599
//! let heap = std::rc::Rc::new(tidepool::Heap::local_builder().build().unwrap());
//! let pool = tidepool::Pool::builder(String::new).local_heap(heap).capacity(1).build().unwrap();
//! ```
//!
//! An object beyond its pool, and two ways to one object:
//!
//! ```compile_fail,E0505
//! let pool = tidepool::Pool::builder(String::new).capacity(1).build().unwrap();
//! let text = pool.get().unwrap();
//! drop(pool);
//! println!("{}", *text);
//! ```
//!
//! ```compile_fail,E0502
//! let mut pool = tidepool::Pool::builder(String::new).capacity(1).build().unwrap();
//! let text = pool.get().unwrap();
//! let same = pool.iter_mut().next();
//! println!("{}", *text);
//! ```
//!
//! ```compile_fail,E0499
//! let mut pool = tidepool::Pool::builder(String::new).capacity(1).build().unwrap();
//! let handle = tidepool::Pooled::detach(pool.get().unwrap());
//! let one = pool.attach(handle).unwrap();
//! let other = pool.get_mut(handle).unwrap();
//! println!("{}", *one);
//! ```
//!
//! ```compile_fail,E0502
//! let mut pool = tidepool::Pool::builder(String::new).capacity(1).build().unwrap();
//! let texts: Vec<&mut String> = pool.iter_mut().collect();
//! let more = pool.get();
//! println!("{}", texts.len());
//! ```
//!
//! An object that is put keeps what is in it, so the type of a pool is one exactly:
//!
//! ```compile_fail
//! fn shorten<'short>(pool: &'short tidepool::Pool<&'static str>) -> &'short tidepool::Pool<&'short str> {
//!     pool
//! }
//! ```
//!
//! The end of a pool runs the drop of what was forgotten, too, so that may not lead to what is gone:
//!
//! ```compile_fail,E0597
//! struct Says<'a>(&'a str);
//! impl Drop for Says<'_> {
//!     fn drop(&mut self) {
//!         println!("{}", self.0);
//!     }
//! }
//! let pool = tidepool::Pool::builder(|| Says("")).capacity(1).build().unwrap();
//! let text = String::from("gone");
//! let mut says = pool.get().unwrap();
//! says.0 = &text;
//! std::mem::forget(says);
//! drop(text);
//! drop(pool);
//! ```
//!
//! What a callback is told, after it:
//!
//! ```compile_fail,E0521
//! let last = std::cell::Cell::new(None::<&'static tidepool::Exhausted<'static>>);
//! tidepool::Heap::local_builder().on_exhausted(move |heap| { last.set(Some(heap)); false });
//! ```
//!
//! And what they allow: the same with what is needed for it.
//!
//! ```
//! let mut heap = tidepool::Heap::new().unwrap();
//! let number = heap.alloc_value(7).unwrap();
//! assert_eq!(std::thread::scope(|threads| threads.spawn(move || *number).join().unwrap()), 7);
//! heap.reset();
//!
//! let names = String::from("one two");
//! let mut pool = tidepool::Pool::builder(|| Vec::<&str>::new()).reset_on_put(|v| v.clear()).capacity(1).build().unwrap();
//! let mut words = pool.get().unwrap();
//! words.extend(names.split(' '));
//! assert_eq!(words.len(), 2);
//! drop(words);
//! assert!(pool.iter_mut().next().is_none());
//! ```
