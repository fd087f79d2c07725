# apk: "adds" what the container has already, refuses everything else: there is no network.
verb=${1:-}
shift
case "$verb" in
  update) echo 'OK: the packages of this machine' ;;
  add)
    for name in "$@"; do
      case "$name" in -*) continue ;; esac
      command -v "$name" >/dev/null || {
        echo "ERROR: unable to select packages: $name (no such package)" >&2
        exit 1
      }
    done
    echo 'OK: nothing to do'
    ;;
  *)
    echo "apk: $verb is not known here" >&2
    exit 1
    ;;
esac
