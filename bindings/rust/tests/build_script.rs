// SPDX-License-Identifier: MIT
//
// What build.rs tells cargo, and what it says when it cannot.
#![allow(dead_code)] // its main()

#[path = "../build.rs"]
mod build_script;

use build_script::{from_flags, plan, Surroundings};
use std::fs;
use std::path::PathBuf;

fn plan_for(lib_dir: Option<&str>, is_static: bool, is_cross: bool) -> Result<Vec<String>, String> {
    plan(&Surroundings {
        lib_dir,
        is_static,
        is_cross,
        pkg_config: &|_| {
            assert!(lib_dir.is_none() && !is_cross, "pkg-config was called");
            Err("pkg-config: no such package".into())
        },
    })
}

fn folder_with(files: &[&str]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("of {}", files.len()));
    fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|file| fs::write(folder.join(file), "").unwrap());
    folder
}

#[test]
fn a_folder_that_is_named_comes_first() {
    let folder = folder_with(&["libtidepool.so", "libtidepool.a"]);
    let named = folder.to_str();
    let lines = plan_for(named, false, true).unwrap();
    assert_eq!(
        lines[..2],
        [
            format!("rustc-link-search=native={}", folder.display()),
            "rustc-link-lib=dylib=tidepool".into()
        ]
    );
    let lines = plan_for(named, true, false).unwrap();
    assert_eq!(lines[1], "rustc-link-lib=static=tidepool");
    assert!(lines[2].starts_with("rerun-if-changed=") && lines[2].ends_with("libtidepool.a"));
}

#[test]
fn pkg_config_is_asked_else() {
    let flags = |arguments: &[&str]| match arguments {
        ["--libs", "tidepool >= 0.1"] => Ok("-L/opt/lib -ltidepool -pthread\n".to_string()),
        _ => Err("asked for something else".into()),
    };
    let surroundings = Surroundings {
        lib_dir: None,
        is_static: false,
        is_cross: false,
        pkg_config: &flags,
    };
    assert_eq!(
        plan(&surroundings).unwrap(),
        ["rustc-link-search=native=/opt/lib", "rustc-link-lib=dylib=tidepool"]
    );
    assert_eq!(from_flags("-ltidepool"), ["rustc-link-lib=dylib=tidepool"]);
    assert_eq!(
        from_flags(r"-L/a\ folder -l\tidepool")[0],
        "rustc-link-search=native=/a folder"
    );

    let folder = folder_with(&["libtidepool.a"]).to_str().unwrap().to_string();
    let libdir = move |arguments: &[&str]| {
        assert_eq!(arguments[0], "--variable=libdir");
        Ok(format!("{folder}\n"))
    };
    let surroundings = Surroundings {
        lib_dir: None,
        is_static: true,
        is_cross: false,
        pkg_config: &libdir,
    };
    assert_eq!(plan(&surroundings).unwrap()[1], "rustc-link-lib=static=tidepool");
}

#[test]
fn what_is_wrong_is_one_line() {
    let empty = folder_with(&[]);
    let cases = [
        (Some(""), false, false, "TIDEPOOL_LIB_DIR is empty"),
        (Some("build/src"), false, false, "is no absolute path"),
        (Some("/no\n/folder"), false, false, "newline"),
        (Some("/no/such/folder"), false, false, "has no libtidepool.so"),
        (empty.to_str(), true, false, "has no libtidepool.a"),
        (None, false, false, "no such package"),
        (None, true, false, "set TIDEPOOL_LIB_DIR"),
        (None, false, true, "another machine"),
    ];
    for (lib_dir, is_static, is_cross, words) in cases {
        let why = plan_for(lib_dir, is_static, is_cross).unwrap_err();
        assert!(why.contains(words) && why.lines().count() == 1, "{why}");
    }
}
