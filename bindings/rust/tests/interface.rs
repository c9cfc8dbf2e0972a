// SPDX-License-Identifier: MIT
//
// `tidepool::sys` is what the headers say: a C program that includes them declares each function once more, in the words of
// sys.rs, and prints sizes, offsets and constants.

use std::collections::BTreeSet;
use std::mem::{size_of, MaybeUninit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::addr_of;
use std::{env, fs};
use tidepool::sys::*;

const SYS: &str = include_str!("../src/sys.rs");
const HEADERS: [&str; 6] = ["version.h", "pool.h", "heap.h", "object_pool.h", "stats.h", "profile.h"];

/// The headers of the library that is tested: of the source tree that this is in, if it is not said otherwise.
fn include_dir() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let folder = env::var_os("TIDEPOOL_INCLUDE_DIR").map_or(beside, PathBuf::from);
    assert!(
        folder.join("tidepool.h").is_file(),
        "TIDEPOOL_INCLUDE_DIR has to name the folder of tidepool.h"
    );
    folder
}

/// A name in C, and what it is here: an offset and a size, or a value and 0.
type Figure = (String, u64, u64);

macro_rules! fields {
    ($($type:ident { $($field:ident),* $(,)? })*) => {{
        let mut figures: Vec<Figure> = Vec::new();
        $(
            figures.push((concat!(stringify!($type)).into(), size_of::<$type>() as u64, std::mem::align_of::<$type>() as u64));
            $({
                let any = MaybeUninit::<$type>::uninit();
                let start = any.as_ptr();
                let field = unsafe { addr_of!((*start).$field) };
                let size = size_of_pointee(field);
                figures.push((
                    concat!(stringify!($type), ".", stringify!($field)).into(),
                    (field as usize - start as usize) as u64,
                    size as u64,
                ));
            })*
        )*
        figures
    }};
}

fn size_of_pointee<T>(_: *const T) -> usize {
    size_of::<T>()
}

macro_rules! constants {
    ($($name:ident)*) => {
        vec![$((stringify!($name).to_string(), u64::from($name), 0)),*]
    };
}

fn figures_here() -> Vec<Figure> {
    let mut figures = fields! {
        pool_heap_options_t {
            name, budget, reserve, parent, on_exhausted, overflow, context, memory, memory_size, size_classes,
            size_class_count, purge_delay_ms, flags,
        }
        pool_block_t { start, size, site }
        pool_stats_t {
            budget, held_bytes, peak_held_bytes, live_bytes, live_blocks, cached_bytes, idle_bytes, metadata_bytes,
            children_bytes, exhausted_count, retried_count, overflowed_count, purged_bytes, largest_free,
            fragmentation, free_bytes, returned_bytes, mapped_bytes, advised_bytes,
        }
        object_pool_options_t {
            name, object_size, alignment, capacity, max_capacity, when_full, construct, reset, destruct, reset_time,
            choose_victim, overflow, heap, context, flags,
        }
        object_pool_handle_t { index, generation }
    };
    figures.extend::<Vec<Figure>>(constants! {
        POOL_HEAP_SINGLE_THREAD POOL_HEAP_PREFAULT POOL_HEAP_LOCK_MEMORY POOL_HEAP_ZERO_ON_FREE POOL_HEAP_CHECKED
        POOL_HEAP_SITES POOL_HEAP_GUARDED POOL_HEAP_DENSE
        POOL_PURGE_NEVER OBJECT_POOL_FAIL OBJECT_POOL_GROW OBJECT_POOL_EVICT OBJECT_POOL_OVERFLOW
        OBJECT_POOL_RESET_ON_GET OBJECT_POOL_RESET_ON_PUT OBJECT_POOL_SINGLE_THREAD OBJECT_POOL_CHECKED
    });
    figures
}

/// A type in C.
fn c_type(rust: &str) -> String {
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(to));
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        return format!("{} const *", c_type(to));
    }
    match rust {
        "usize" => "size_t".into(),
        "u64" => "uint64_t".into(),
        "c_int" => "int".into(),
        "c_uint" => "unsigned".into(),
        "c_char" => "char".into(),
        "c_void" => "void".into(),
        "pool_visit_fn" => "pool_visit_fn *".into(),
        same => same.into(),
    }
}

/// `pub fn name(a: T, b: U) -> V` in C.
fn c_declaration(rust: &str) -> String {
    let (name, rest) = rust.split_once('(').unwrap();
    let (arguments, result) = rest.rsplit_once(')').unwrap();
    let arguments: Vec<String> = arguments
        .split(',')
        .filter_map(|argument| argument.split_once(':'))
        .map(|(_, of)| c_type(of.trim()))
        .collect();
    let arguments = if arguments.is_empty() {
        "void".into()
    } else {
        arguments.join(", ")
    };
    let result = result.trim().strip_prefix("->").map_or("void".into(), |of| c_type(of.trim()));
    format!("{result} {name}({arguments});")
}

/// (what linkers know it as, its declaration) of each function of sys.rs.
fn functions_here() -> Vec<(String, String)> {
    let block = SYS.split_once("extern \"C\" {\n    #[link_name").unwrap().1;
    let block = block.split_once("\n}\n").unwrap().0;
    let one = |text: &str| {
        let linked = text.split('"').nth(1).unwrap().to_string();
        let declared = text
            .split_once("pub fn ")
            .unwrap()
            .1
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        (linked, c_declaration(&declared))
    };
    block.split(';').filter(|text| text.contains("pub fn ")).map(one).collect()
}

/// What linkers know the functions of the headers as.
fn functions_of_headers() -> BTreeSet<String> {
    let text: String = HEADERS
        .iter()
        .map(|name| fs::read_to_string(include_dir().join("tidepool").join(name)).unwrap())
        .collect();
    text.split("POOL_NAME(")
        .skip(1)
        .map(|rest| format!("tidepool_{}", rest.split_once(')').unwrap().0))
        .collect()
}

#[test]
fn every_function_is_there() {
    let here: BTreeSet<String> = functions_here().into_iter().map(|(linked, _)| linked).collect();
    assert!(here.len() > 40);
    assert_eq!(here, functions_of_headers());
}

#[test]
fn types_and_constants_are_those_of_c() {
    let figures = figures_here();
    let mut program = String::from("#include <stddef.h>\n#include <stdio.h>\n#include <tidepool.h>\n");
    functions_here()
        .iter()
        .for_each(|(_, declared)| program += &format!("{declared}\n"));
    program += "int main(void)\n{\n";
    for (name, _, _) in &figures {
        program += &match name.split_once('.') {
            Some((of, field)) => {
                format!("  printf(\"%zu %zu\\n\", offsetof({of}, {field}), sizeof((({of} *)0)->{field}));\n")
            }
            None if name.ends_with("_t") => format!("  printf(\"%zu %zu\\n\", sizeof({name}), _Alignof({name}));\n"),
            None => format!("  printf(\"%llu 0\\n\", (unsigned long long)(unsigned){name});\n"),
        };
    }
    program += "}\n";

    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, compiled) = (folder.join("interface.c"), folder.join("interface"));
    fs::write(&source, program).unwrap();
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .args(["-std=gnu11", "-Wno-unused-function", "-Werror", "-I"])
        .arg(include_dir());
    // The inline functions of the headers call the library, which this program does not need.
    command.arg("-O1").arg("-o").arg(&compiled).arg(&source);
    let done = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8(Command::new(&compiled).output().unwrap().stdout).unwrap();
    let there: Vec<Figure> = printed
        .lines()
        .zip(&figures)
        .map(|(line, (name, _, _))| {
            let (one, other) = line.split_once(' ').unwrap();
            (name.clone(), one.parse().unwrap(), other.parse().unwrap())
        })
        .collect();
    assert_eq!(there, figures);
}

macro_rules! addresses {
    ($($name:ident)*) => {
        vec![$($name as *const ()),*]
    };
}

/// Each is in the library: its address is taken.
#[test]
fn every_function_is_linked() {
    let functions: Vec<*const ()> = addresses! {
        pool_version pool_error pool_alloc pool_zalloc pool_calloc pool_realloc pool_aligned_alloc pool_free pool_free_sized
        pool_alloc_batch pool_free_batch pool_resize_in_place pool_usable_size pool_good_size pool_trim
        pool_background_start pool_background_stop
        pool_in_use pool_block_start pool_heap_of pool_option_set pool_heap_create_sized pool_heap_destroy
        pool_heap_reset pool_heap_trim pool_heap_set_budget pool_heap_alloc pool_heap_zalloc pool_heap_calloc
        pool_heap_realloc pool_heap_aligned_alloc pool_heap_good_size pool_heap_largest pool_heap_free pool_heap_default
        pool_heap_least_memory_sized
        pool_heap_name pool_heap_walk pool_heap_report pool_forbid_system_calls pool_heap_stats_sized pool_heap_stats_json
        pool_profile_start pool_profile_stop pool_profile_write
        pool_stats_json object_pool_create_sized object_pool_destroy object_pool_get object_pool_put
        object_pool_get_batch object_pool_put_batch object_pool_put_all object_pool_in_use object_pool_next
        object_pool_live object_pool_capacity object_pool_shrink object_pool_handle object_pool_resolve
    };
    assert_eq!(functions.len(), functions_here().len());
    assert_eq!(functions.iter().collect::<BTreeSet<_>>().len(), functions.len());
}
