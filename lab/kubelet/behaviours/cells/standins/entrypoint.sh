# entrypoint: what images such as influxdb's put before their command; only runs it.
exec "$@"
