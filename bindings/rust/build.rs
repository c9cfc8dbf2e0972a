// SPDX-License-Identifier: MIT
//
// Says where libtidepool is. A folder that the user names comes before what pkg-config knows, since somebody has written it
// down for this very build. What goes wrong is one line.

use std::env;
use std::path::Path;
use std::process::{exit, Command};

const LEAST_VERSION: &str = "0.1";

/// What the decision depends on.
pub struct Surroundings<'a> {
    pub lib_dir: Option<&'a str>,
    pub is_static: bool,
    /// The library is for another machine than this one.
    pub is_cross: bool,
    /// The output of pkg-config with these arguments, or why there is none.
    pub pkg_config: &'a dyn Fn(&[&str]) -> Result<String, String>,
}

fn file_name(is_static: bool) -> &'static str {
    if is_static {
        "libtidepool.a"
    } else {
        "libtidepool.so"
    }
}

fn from_folder(folder: &str, is_static: bool) -> Result<Vec<String>, String> {
    if folder.is_empty() {
        return Err("TIDEPOOL_LIB_DIR is empty".into());
    }
    if folder.contains('\n') {
        return Err("TIDEPOOL_LIB_DIR has a newline, which cargo cannot be told".into());
    }
    if !Path::new(folder).is_absolute() {
        return Err(format!("TIDEPOOL_LIB_DIR={folder} is no absolute path"));
    }
    let file = Path::new(folder).join(file_name(is_static));
    if !file.is_file() {
        return Err(format!("TIDEPOOL_LIB_DIR={folder} has no {}", file_name(is_static)));
    }
    let kind = if is_static { "static" } else { "dylib" };
    Ok(vec![
        format!("rustc-link-search=native={folder}"),
        format!("rustc-link-lib={kind}=tidepool"),
        format!("rerun-if-changed={}", file.display()),
    ])
}

/// The words of a line, in which a backslash takes the next character for itself.
fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.extend(letters.next()),
            _ if letter.is_whitespace() => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words
}

/// The arguments for the linker that pkg-config prints, as cargo wants them. It prints no folder that linkers search anyway.
pub fn from_flags(flags: &str) -> Vec<String> {
    let one = |flag: String| {
        let folder = flag
            .strip_prefix("-L")
            .map(|folder| format!("rustc-link-search=native={folder}"));
        folder.or_else(|| flag.strip_prefix("-l").map(|name| format!("rustc-link-lib=dylib={name}")))
    };
    words_of(flags).into_iter().filter_map(one).collect()
}

/// The lines that cargo is told.
pub fn plan(here: &Surroundings) -> Result<Vec<String>, String> {
    if let Some(folder) = here.lib_dir {
        return from_folder(folder, here.is_static);
    }
    if here.is_cross {
        return Err("for another machine TIDEPOOL_LIB_DIR has to name the folder of its libtidepool".into());
    }
    let wanted = format!("tidepool >= {LEAST_VERSION}");
    let asked = if here.is_static {
        (here.pkg_config)(&["--variable=libdir", &wanted]).and_then(|libdir| from_folder(libdir.trim(), true))
    } else {
        (here.pkg_config)(&["--libs", &wanted]).map(|flags| from_flags(&flags))
    };
    asked.map_err(|why| format!("libtidepool was not found ({why}): install it, or set TIDEPOOL_LIB_DIR to its folder"))
}

fn run_pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    match Command::new(&program).args(arguments).output() {
        Err(error) => Err(format!("{program}: {error}")),
        Ok(done) if done.status.success() => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            let last = said.lines().last().unwrap_or("it says nothing");
            Err(format!("{program}: {last}"))
        }
    }
}

fn must_be_linux_of_64_bits() -> Result<(), String> {
    let of = |name: &str| env::var(name).unwrap_or_default();
    let (system, bits) = (of("CARGO_CFG_TARGET_OS"), of("CARGO_CFG_TARGET_POINTER_WIDTH"));
    if system == "linux" && bits == "64" {
        return Ok(());
    }
    Err(format!("libtidepool is for Linux with 64 bits, not for {system} with {bits}"))
}

fn main() {
    for name in [
        "TIDEPOOL_LIB_DIR",
        "PKG_CONFIG",
        "PKG_CONFIG_PATH",
        "PKG_CONFIG_LIBDIR",
        "DOCS_RS",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    // docs.rs links nothing.
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    let lib_dir = env::var_os("TIDEPOOL_LIB_DIR").map(|folder| folder.to_string_lossy().into_owned());
    let planned = must_be_linux_of_64_bits().and_then(|()| {
        plan(&Surroundings {
            lib_dir: lib_dir.as_deref(),
            is_static: env::var_os("CARGO_FEATURE_STATIC").is_some(),
            is_cross: env::var_os("HOST") != env::var_os("TARGET") && env::var_os("PKG_CONFIG_ALLOW_CROSS").is_none(),
            pkg_config: &run_pkg_config,
        })
    });
    match planned {
        Ok(lines) => lines.iter().for_each(|line| println!("cargo:{line}")),
        Err(why) => {
            eprintln!("tidepool: {why}");
            exit(1);
        }
    }
}
