# bash completion of tidepool(1)                              -*- shell-script -*-
# SPDX-License-Identifier: MIT

# What stands behind the program's name is the program's.
_tidepool_program() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  else
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}

_tidepool_run() {
  local current=${COMP_WORDS[COMP_CWORD]} i
  for ((i = 2; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) _tidepool_program $((i + 1)); return ;;
      --stats | --library | --option | -o) i=$((i + 1)) ;;
      -* | =) ;;
      *) [ "${COMP_WORDS[i - 1]}" = = ] || { _tidepool_program "$i"; return; } ;;
    esac
  done
  case ${COMP_WORDS[COMP_CWORD - 1]} in
    --stats | --library) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    --option | -o)
      mapfile -t COMPREPLY < <(compgen -W "abort_on_exhausted= blocks= check_at_exit= checked= guard_sample= guarded= huge_pages= \
        leaks= purge_delay_ms= sites= stats=" -- "$current")
      ;;
    *)
      case $current in
        -*) mapfile -t COMPREPLY < <(compgen -W "--checked --guarded --leaks --library --option --stats --help" -- "$current") ;;
        *) _tidepool_program "$COMP_CWORD" ;;
      esac
      ;;
  esac
}

_tidepool_report() {
  local current=${COMP_WORDS[COMP_CWORD]}
  case $current in
    -*) mapfile -t COMPREPLY < <(compgen -W "--json --prometheus --help" -- "$current") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
  esac
}

_tidepool() {
  COMPREPLY=()
  if [ "$COMP_CWORD" -le 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "run report --help --version" -- "${COMP_WORDS[COMP_CWORD]}")
  elif [ "${COMP_WORDS[1]}" = run ]; then
    _tidepool_run
  elif [ "${COMP_WORDS[1]}" = report ]; then
    _tidepool_report
  fi
}

complete -F _tidepool tidepool
