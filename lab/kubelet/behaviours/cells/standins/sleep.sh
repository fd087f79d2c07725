# sleep: as long as asked in the lab's time, which is shorter on the wall.
case "${1:-}" in
  infinity | inf) exec /usr/bin/sleep infinity ;;
  '') exec /usr/bin/sleep ;;
esac
exec /usr/bin/sleep "$(awk -v speed="${TIPHYS_LAB_SPEED:-1}" 'BEGIN {
  unit["s"] = 1; unit["m"] = 60; unit["h"] = 3600; unit["d"] = 86400
  for (i = 1; i < ARGC; i++) {
    last = substr(ARGV[i], length(ARGV[i]))
    total += (last in unit) ? (ARGV[i] + 0) * unit[last] : ARGV[i] + 0
  }
  printf "%.4f", total / speed
}' "$@")"
