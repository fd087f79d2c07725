# argosay: what the image argoproj/argosay:v2 starts with; says, writes, reads, ends as it is told.
verb=${1:-say}
case "$verb" in
  say) echo 'hello argo' ;;
  echo)
    text=${2:-hello argo}
    if [ -n "${3:-}" ]; then
      mkdir -p "$(dirname "$3")" && printf '%s\n' "$text" >"$3"
    else
      printf '%s\n' "$text"
    fi
    ;;
  cat) exec cat "$2" ;;
  sleep) exec sleep "$2" ;;
  exit) exit "${2:-0}" ;;
  assert_contains) exec grep -F "$3" "$2" ;;
  sh) shift && exec sh "$@" ;;
  *)
    echo "argosay: cannot $verb" >&2
    exit 1
    ;;
esac
