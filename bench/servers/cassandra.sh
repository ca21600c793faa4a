# A node of Cassandra in this folder, from the jars of @jars@. Commits are in its log before it
# answers; the log is synced every ten seconds, which is Cassandra's default.
set -eu
mkdir -p conf
cp logback.xml conf
cat > conf/cassandra.yaml <<YAML
cluster_name: larder
num_tokens: 1
auto_bootstrap: false
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:@storage@"
listen_address: 127.0.0.1
storage_port: @storage@
ssl_storage_port: @tls-storage@
rpc_address: 127.0.0.1
native_transport_port: @port@
endpoint_snitch: SimpleSnitch
authenticator: AllowAllAuthenticator
commitlog_sync: periodic
commitlog_sync_period: 10s
commitlog_directory: commitlog
saved_caches_directory: saved
hints_directory: hints
cdc_raw_directory: cdc
data_file_directories: [data]
memtable_heap_space: 128MiB
memtable_offheap_space: 128MiB
file_cache_size: 32MiB
concurrent_reads: 8
concurrent_writes: 8
auto_snapshot: false
YAML
# The tests' options, with the optimising compiler, as in production.
exec java $(grep -v TieredStopAtLevel jvm.options) -Dcassandra.config="file://$PWD/conf/cassandra.yaml" \
    -Dcassandra.storagedir="$PWD" -cp "conf:@jars@/*" org.apache.cassandra.service.CassandraDaemon
