# bash completion of tidepool(1)                              -*- shell-script -*-
# SPDX-License-Identifier: MIT

# Readline quotes names of files, and puts a slash behind folders, only if it is told that they are such.
_tidepool_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# What stands behind the program's name is the program's, at word $1.
_tidepool_program() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif [ "$1" = "$COMP_CWORD" ]; then
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  else
    _tidepool_files "${COMP_WORDS[COMP_CWORD]}"
  fi
}

_tidepool_keys() {
  compopt -o nospace 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -W "abort_on_exhausted= background= blocks= cache_bytes= check_at_exit= checked= deepbind= export= guard_sample= \
    guarded= huge_pages= leaks= names= profile= profile_signal= purge_delay_ms= sample_bytes= sites= stats=" -- "$1")
}

# The value of option $1, of which word $2 is the first. Bash splits words at =, so it may have others.
_tidepool_value() {
  local current=${COMP_WORDS[COMP_CWORD]}
  [ "$COMP_CWORD" -ge "$2" ] || current=''   # the cursor is behind the = of --stats=
  [ "$COMP_CWORD" -le "$2" ] || return 0     # in the VALUE of KEY=VALUE
  case ${COMP_WORDS[1]}$1 in
    *--stats | *--profile | *--library | *--output | record-o) _tidepool_files "$current" ;;
    *--frames) mapfile -t COMPREPLY < <(compgen -W "0 1 8 16 32 64" -- "$current") ;;
    *) _tidepool_keys "$current" ;;
  esac
}

# A command with a program behind its options, which are $1; those that are in $2, too, have a value.
_tidepool_start() {
  local i=2 first last
  while [ "$i" -lt "$COMP_CWORD" ]; do
    case ${COMP_WORDS[i]} in
      --) _tidepool_program $((i + 1)); return ;;
      -*)
        case " $2 " in
          *" ${COMP_WORDS[i]} "*) ;;
          *) i=$((i + 1)); continue ;;
        esac
        first=$((i + 1))
        [ "${COMP_WORDS[first]}" != = ] || first=$((i + 2))
        last=$first
        while [ "${COMP_WORDS[last + 1]-}" = = ]; do last=$((last + 2)); done
        [ "$COMP_CWORD" -gt "$last" ] || { _tidepool_value "${COMP_WORDS[i]}" "$first"; return; }
        i=$((last + 1))
        ;;
      *) _tidepool_program "$i"; return ;;
    esac
  done
  case ${COMP_WORDS[COMP_CWORD]} in
    -*) mapfile -t COMPREPLY < <(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}") ;;
    *) _tidepool_program "$COMP_CWORD" ;;
  esac
}

_tidepool_run() {
  _tidepool_start "--checked --guarded --leaks --library --option --profile --stats --help" \
    "--library --option -o --profile --stats"
}

_tidepool_record() {
  _tidepool_start "--frames --library --output --help" "--frames --library --output -o"
}

_tidepool_replay() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$current" != = ] || current=''
  case $before/$current in
    --with/*/*) _tidepool_files "$current" ;;
    --with/*) mapfile -t COMPREPLY < <(compgen -W "tidepool glibc jemalloc mimalloc tcmalloc" -- "$current") ;;
    --runs/*) ;;
    */-*) mapfile -t COMPREPLY < <(compgen -W "--check --json --runs --with --help" -- "$current") ;;
    *) _tidepool_files "$current" ;;
  esac
}

_tidepool_fit() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$current" != = ] || current=''
  case $before/$current in
    --budget/* | --classes/* | --heap/*) ;;
    */-*) mapfile -t COMPREPLY < <(compgen -W "--budget --classes --heap --help" -- "$current") ;;
    *) _tidepool_files "$current" ;;
  esac
}

_tidepool_show() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$current" != = ] || current=''
  case $before/$current in
    -n/* | --number/* | --heap/* | --at/*) ;;
    */-*) mapfile -t COMPREPLY < <(compgen -W "--at --heap --json --lines --number --output --help" -- "$current") ;;
    *) _tidepool_files "$current" ;;
  esac
}

_tidepool_diff() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$current" != = ] || current=''
  case $before/$current in
    -n/* | --number/* | --heap/* | --from/* | --to/*) ;;
    */-*) mapfile -t COMPREPLY < <(compgen -W "--from --heap --json --lines --number --output --to --help" -- "$current") ;;
    *) _tidepool_files "$current" ;;
  esac
}

_tidepool_map() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$current" != = ] || current=''
  case $before/$current in
    --at/*) mapfile -t COMPREPLY < <(compgen -W "peak end" -- "$current") ;;
    -o/* | --output/* | --library/*) _tidepool_files "$current" ;;
    */-*) mapfile -t COMPREPLY < <(compgen -W "--at --json --library --output --help" -- "$current") ;;
    *) _tidepool_files "$current" ;;
  esac
}

_tidepool_report() {
  local current=${COMP_WORDS[COMP_CWORD]}
  [ "$current" != = ] || current=''
  case $current in
    -*) mapfile -t COMPREPLY < <(compgen -W "--html --json --prometheus --help" -- "$current") ;;
    *) _tidepool_files "$current" ;;
  esac
}

_tidepool_top() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$current" != = ] || current=''
  case $before/$current in
    -s/* | --sort/*) mapfile -t COMPREPLY < <(compgen -W "held change live blocks exhausted name" -- "$current") ;;
    */-*) mapfile -t COMPREPLY < <(compgen -W "--batch --count --delay --sort --help" -- "$current") ;;
  esac
}

_tidepool() {
  COMPREPLY=()
  if [ "$COMP_CWORD" -le 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "run record replay fit show diff map report top --help --version" -- "${COMP_WORDS[COMP_CWORD]}")
  elif [ "${COMP_WORDS[1]}" = run ]; then
    _tidepool_run
  elif [ "${COMP_WORDS[1]}" = record ]; then
    _tidepool_record
  elif [ "${COMP_WORDS[1]}" = replay ]; then
    _tidepool_replay
  elif [ "${COMP_WORDS[1]}" = fit ]; then
    _tidepool_fit
  elif [ "${COMP_WORDS[1]}" = show ]; then
    _tidepool_show
  elif [ "${COMP_WORDS[1]}" = diff ]; then
    _tidepool_diff
  elif [ "${COMP_WORDS[1]}" = map ]; then
    _tidepool_map
  elif [ "${COMP_WORDS[1]}" = report ]; then
    _tidepool_report
  elif [ "${COMP_WORDS[1]}" = top ]; then
    _tidepool_top
  fi
}

complete -F _tidepool tidepool
