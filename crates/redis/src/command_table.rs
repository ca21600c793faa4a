//! The table of commands: one row for each command.
//!
//! A row is `"name" arity [FLAGS] Leaves (first last step) "since" Kind(function, …), "summary";` in
//! the block of its group. Subcommands follow their parent. [`Leaves`](super::command::Leaves) says
//! which bytes of the client stay when the command is answered; it has no default, so no row can
//! forget it. The first function begins the command.
//! [`Functions`](super::command_handlers::Functions) says what the named ones do.

/// Passes all rows to the macro `$with`.
macro_rules! for_all_commands {
    ($with:ident) => {
        $with! {
"string" {
    "append" 3 [WRITE DENYOOM FAST] Entries (1 1 1) "2.0.0" Tier(strings::append), "Appends to a value, or stores it if the key does not exist";
    "decr" 2 [WRITE DENYOOM FAST] Entries (1 1 1) "1.0.0" Tier(|call, tier| increments::add(call, tier, -1)), "Subtracts one from an integer";
    "decrby" 3 [WRITE DENYOOM FAST] Entries (1 1 1) "1.0.0" Tier(increments::decrby), "Subtracts a number from an integer";
    "delex" -2 [WRITE FAST DELETES] Entries (1 1 1) "8.4.0" Tier(comparisons::delex), "Deletes a key if its value is, or is not, a given one";
    "delifeq" 3 [WRITE FAST DELETES] Entries (1 1 1) "9.0.0" Tier(comparisons::delifeq), "Deletes a key if its value is a given one (Valkey)";
    "digest" 2 [READONLY FAST COPY_WILL_DO] Shared (1 1 1) "8.4.0" Tier(comparisons::digest), "Returns the XXH3 digest of a value";
    "get" 2 [READONLY FAST] Shared (1 1 1) "1.0.0" Get, "Returns a value";
    "getdel" 2 [WRITE FAST DELETES] Entries (1 1 1) "6.2.0" Tier(strings::getdel), "Returns a value and deletes its key";
    "getex" -2 [WRITE FAST] Entries (1 1 1) "6.2.0" Tier(strings::getex), "Returns a value and changes its lifetime";
    "getrange" 4 [READONLY COPY_WILL_DO] Shared (1 1 1) "2.4.0" Tier(strings::getrange), "Returns a part of a value";
    "getset" 3 [WRITE DENYOOM FAST] Entries (1 1 1) "1.0.0" Tier(strings::getset), "Stores a value and returns the old one";
    "incr" 2 [WRITE DENYOOM FAST] Entries (1 1 1) "1.0.0" Tier(|call, tier| increments::add(call, tier, 1)), "Adds one to an integer";
    "incrby" 3 [WRITE DENYOOM FAST] Entries (1 1 1) "1.0.0" Tier(increments::incrby), "Adds a number to an integer";
    "incrbyfloat" 3 [WRITE DENYOOM FAST] Entries (1 1 1) "2.6.0" Tier(increments::incrbyfloat), "Adds a number to a decimal number";
    "increx" -2 [WRITE DENYOOM FAST] Entries (1 1 1) "8.8.0" Tier(bounded_increments::increx), "Adds to a number within bounds and sets its lifetime";
    "mget" -2 [READONLY FAST] Shared (1 -1 1) "1.0.0" MultiGet, "Returns several values";
    "mset" -3 [WRITE DENYOOM OVERWRITES] Entries (1 -1 2) "1.0.1" Tier(strings::mset, values = strings::mset_at_values), "Stores several values at once";
    "msetex" -4 [WRITE DENYOOM] Entries (2 0 2) "8.4.0" Tier(strings::msetex), "Stores several values with one lifetime";
    "msetnx" -3 [WRITE DENYOOM] Entries (1 -1 2) "1.0.1" Tier(strings::msetnx), "Stores several values unless one of the keys exists";
    "psetex" 4 [WRITE DENYOOM OVERWRITES] Entries (1 1 1) "2.6.0" Tier(|call, tier| strings::set_for(call, tier, false), stored = |call| strings::stored_for(call, false)), "Stores a value for some milliseconds";
    "set" -3 [WRITE DENYOOM OVERWRITES TAGS] Entries (1 1 1) "1.0.0" Tier(strings::set, stored = strings::stored_by_set, values = strings::set_at_values), "Stores a value";
    "setex" 4 [WRITE DENYOOM OVERWRITES] Entries (1 1 1) "2.0.0" Tier(|call, tier| strings::set_for(call, tier, true), stored = |call| strings::stored_for(call, true)), "Stores a value for some seconds";
    "setnx" 3 [WRITE DENYOOM FAST] Entries (1 1 1) "1.0.0" Tier(strings::setnx), "Stores a value unless the key exists";
    "setrange" 4 [WRITE DENYOOM] Entries (1 1 1) "2.2.0" Tier(strings::setrange), "Overwrites a part of a value";
    "strlen" 2 [READONLY FAST COPY_WILL_DO] Shared (1 1 1) "2.2.0" Tier(strings::strlen), "Returns the length of a value";
    "substr" 4 [READONLY COPY_WILL_DO] Shared (1 1 1) "1.0.0" Tier(strings::getrange), "Returns a part of a value (old name of GETRANGE)";
}
"bitmap" {
    "bitcount" -2 [READONLY COPY_WILL_DO] Shared (1 1 1) "2.6.0" Tier(bits::bitcount), "Counts the bits of a value that are set";
    "bitfield" -2 [WRITE DENYOOM] Entries (1 1 1) "3.2.0" Tier(bit_fields::bitfield), "Reads and changes integers of any number of bits";
    "bitfield_ro" -2 [READONLY FAST COPY_WILL_DO] Shared (1 1 1) "6.0.0" Tier(bit_fields::bitfield_ro), "Returns integers of any number of bits";
    "bitop" -4 [WRITE DENYOOM] Entries (2 -1 1) "2.6.0" Tier(bits::bitop), "Stores what a bitwise operation makes of values";
    "bitpos" -3 [READONLY COPY_WILL_DO] Shared (1 1 1) "2.8.7" Tier(bits::bitpos), "Returns the position of the first bit that is set, or not set";
    "getbit" 3 [READONLY FAST COPY_WILL_DO] Shared (1 1 1) "2.2.0" Tier(bits::getbit), "Returns a bit of a value";
    "setbit" 4 [WRITE DENYOOM] Entries (1 1 1) "2.2.0" Tier(bits::setbit), "Sets a bit of a value and returns the old one";
}
"hyperloglog" {
    "pfadd" -2 [WRITE DENYOOM FAST AT_SOURCE] Entries (1 1 1) "2.8.9" Tier(hyperloglogs::pfadd), "Adds elements to a HyperLogLog, which estimates how many different ones there are";
    "pfcount" -2 [READONLY AT_SOURCE] Entries (1 -1 1) "2.8.9" Tier(hyperloglogs::pfcount), "Estimates the number of different elements in HyperLogLogs";
    "pfmerge" -2 [WRITE DENYOOM AT_SOURCE] Entries (1 -1 1) "2.8.9" Tier(hyperloglogs::pfmerge), "Stores the union of HyperLogLogs";
}
"generic" {
    "copy" -3 [WRITE DENYOOM] Entries (1 2 1) "6.2.0" Tier(keys::copy), "Copies a value to another key";
    "del" -2 [WRITE EXISTENCE DELETES] Entries (1 -1 1) "1.0.0" Tier(keys::del, values = strings::del_at_values), "Deletes keys";
    "dump" 2 [READONLY] Shared (1 1 1) "2.6.0" Tier(dumps::dump_key), "Returns a value in Redis's own format";
    "exists" -2 [READONLY FAST EXISTENCE] Shared (1 -1 1) "1.0.0" Tier(keys::exists), "Counts the keys that exist";
    "expire" -3 [WRITE FAST] Entries (1 1 1) "1.0.0" Tier(|call, tier| expire::expire(call, tier, 1000, Since::Now)), "Sets a lifetime in seconds";
    "expireat" -3 [WRITE FAST] Entries (1 1 1) "1.2.0" Tier(|call, tier| expire::expire(call, tier, 1000, Since::Epoch)), "Sets the expiry time in Unix seconds";
    "expiretime" 2 [READONLY FAST] Shared (1 1 1) "7.0.0" Tier(|call, tier| expire::ttl(call, tier, 1000, Since::Epoch)), "Returns the expiry time in Unix seconds";
    "keys" 2 [READONLY KEYSPACE SLOW] Nothing (0 0 0) "1.0.0" Tier(scan::keys, keyspace = keyspace::keys), "Returns the keys that match a pattern";
    "larder.cleartag" -2 [WRITE FAST] Entries (0 0 0) "0.2.0" Local(tags::clear_tag, later = tags::clear_tag_everywhere, tier = tags::clear_tag_on), "Removes all entries with a tag from memory (Larder's own)";
    "larder.explain" 2 [READONLY FAST UNLOCKED] Shared (1 1 1) "0.2.0" Local(object::explain), "Describes a key's entry in memory and what a read would do (Larder's own)";
    "larder.tag" -3 [WRITE FAST] Entries (1 1 1) "0.2.0" Local(tags::tag, tier = tags::tag_on), "Adds tags to a key's entry in memory (Larder's own)";
    "object" -2 [] Nothing (0 0 0) "2.2.3" Container, "Inspects how a value is stored";
    "object|encoding" 3 [READONLY] Shared (2 2 1) "2.2.3" Tier(object::encoding), "Returns the encoding of a value";
    "object|freq" 3 [READONLY] Shared (2 2 1) "4.0.0" Tier(object::freq), "Returns the access frequency of a key, as the eviction policy counts it";
    "object|help" 2 [LOADING STALE AT_SOURCE] Nothing (0 0 0) "6.2.0" Local(introspection::help), "Lists the subcommands";
    "object|idletime" 3 [READONLY] Shared (2 2 1) "2.2.3" Tier(object::idletime), "Returns the seconds since a key was written";
    "object|refcount" 3 [READONLY] Shared (2 2 1) "2.2.3" Tier(object::refcount), "Returns the number of references to a value";
    "persist" 2 [WRITE FAST] Entries (1 1 1) "2.2.0" Tier(expire::persist), "Removes a key's expiry";
    "pexpire" -3 [WRITE FAST] Entries (1 1 1) "2.6.0" Tier(|call, tier| expire::expire(call, tier, 1, Since::Now)), "Sets a lifetime in milliseconds";
    "pexpireat" -3 [WRITE FAST] Entries (1 1 1) "2.6.0" Tier(|call, tier| expire::expire(call, tier, 1, Since::Epoch)), "Sets the expiry time in Unix milliseconds";
    "pexpiretime" 2 [READONLY FAST] Shared (1 1 1) "7.0.0" Tier(|call, tier| expire::ttl(call, tier, 1, Since::Epoch)), "Returns the expiry time in Unix milliseconds";
    "pttl" 2 [READONLY FAST] Shared (1 1 1) "2.6.0" Tier(|call, tier| expire::ttl(call, tier, 1, Since::Now)), "Returns the time left in milliseconds";
    "randomkey" 1 [READONLY KEYSPACE] Nothing (0 0 0) "1.0.0" Tier(scan::randomkey, keyspace = keyspace::randomkey), "Returns a key at random";
    "rename" 3 [WRITE] Entries (1 2 1) "1.0.0" Tier(keys::rename), "Renames a key";
    "renamenx" 3 [WRITE FAST] Entries (1 2 1) "1.0.0" Tier(keys::renamenx), "Renames a key unless the new name exists";
    "restore" -4 [WRITE DENYOOM] Entries (1 1 1) "2.6.0" Tier(dumps::restore), "Stores a value that DUMP returned";
    "scan" -2 [READONLY KEYSPACE] Shared (0 0 0) "2.8.0" Tier(scan::scan, keyspace = keyspace::scan), "Iterates over the keys with a cursor";
    "touch" -2 [READONLY FAST EXISTENCE] Shared (1 -1 1) "3.2.1" Tier(keys::touch), "Counts the keys that exist, and counts as a read of them";
    "ttl" 2 [READONLY FAST] Shared (1 1 1) "1.0.0" Tier(|call, tier| expire::ttl(call, tier, 1000, Since::Now)), "Returns the time left in seconds";
    "type" 2 [READONLY FAST COPY_WILL_DO] Shared (1 1 1) "1.0.0" Tier(keys::type_of), "Returns the type of a value";
    "unlink" -2 [WRITE FAST EXISTENCE DELETES] Entries (1 -1 1) "4.0.0" Tier(keys::del), "Deletes keys";
    "wait" 3 [] Nothing (0 0 0) "3.0.0" Local(replication::wait, later = replication::run_wait), "Waits until replicas have acknowledged earlier writes";
}
"json" {
    "json.arrappend" -4 [WRITE DENYOOM AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(json::arrappend), "Appends values to an array of a document";
    "json.arrindex" -4 [READONLY AT_SOURCE] Shared (1 1 1) "1.0.0" Tier(json::arrindex), "Finds a value in an array of a document";
    "json.arrinsert" -5 [WRITE DENYOOM AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(json::arrinsert), "Inserts values into an array of a document";
    "json.arrlen" -2 [READONLY AT_SOURCE] Shared (1 1 1) "1.0.0" Tier(json::arrlen), "Returns the length of an array of a document";
    "json.arrpop" -2 [WRITE AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(json::arrpop), "Removes and returns an element of an array of a document";
    "json.arrtrim" 5 [WRITE AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(json::arrtrim), "Trims an array of a document to a range";
    "json.clear" -2 [WRITE AT_SOURCE] Entries (1 1 1) "2.0.0" Tier(json::clear), "Empties arrays and objects of a document, and sets numbers to 0";
    "json.debug" -2 [] Nothing (0 0 0) "1.0.0" Container, "Returns the memory that a document takes";
    "json.debug|help" 2 [LOADING STALE AT_SOURCE] Nothing (0 0 0) "1.0.0" Local(introspection::help), "Lists the subcommands";
    "json.debug|memory" -3 [READONLY AT_SOURCE] Shared (2 2 1) "1.0.0" Tier(json::debug_memory), "Returns the bytes of a document's text, or of values in it";
    "json.del" -2 [WRITE AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(json::del), "Deletes a document, or values in it";
    "json.forget" -2 [WRITE AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(json::del), "Deletes a document, or values in it";
    "json.get" -2 [READONLY AT_SOURCE] Shared (1 1 1) "1.0.0" Tier(json::get), "Returns a document, or values of it";
    "json.merge" 4 [WRITE DENYOOM AT_SOURCE] Entries (1 1 1) "2.6.0" Tier(json::merge), "Merges a JSON value into a document (RFC 7386)";
    "json.mget" -3 [READONLY AT_SOURCE] Shared (1 -2 1) "1.0.0" Tier(json::mget), "Returns the values of a path in several documents";
    "json.mset" -4 [WRITE DENYOOM AT_SOURCE] Entries (1 -1 3) "2.6.0" Tier(json::mset), "Stores values in several documents at once";
    "json.numincrby" 4 [WRITE AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(|call, tier| json::number(call, tier, NumberEdit::Add)), "Adds a number to numbers of a document";
    "json.nummultby" 4 [WRITE AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(|call, tier| json::number(call, tier, NumberEdit::Multiply)), "Multiplies numbers of a document";
    "json.numpowby" 4 [WRITE AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(|call, tier| json::number(call, tier, NumberEdit::Power)), "Raises numbers of a document to a power";
    "json.objkeys" -2 [READONLY AT_SOURCE] Shared (1 1 1) "1.0.0" Tier(json::objkeys), "Returns the keys of an object of a document";
    "json.objlen" -2 [READONLY AT_SOURCE] Shared (1 1 1) "1.0.0" Tier(json::objlen), "Counts the members of an object of a document";
    "json.resp" -2 [READONLY AT_SOURCE] Shared (1 1 1) "1.0.0" Tier(json::resp), "Returns a document as nested replies";
    "json.set" -4 [WRITE DENYOOM AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(json::set), "Stores a document, or a value in it";
    "json.strappend" -3 [WRITE DENYOOM AT_SOURCE] Entries (1 1 1) "1.0.0" Tier(json::strappend), "Appends text to strings of a document";
    "json.strlen" -2 [READONLY AT_SOURCE] Shared (1 1 1) "1.0.0" Tier(json::strlen), "Returns the length of a string of a document";
    "json.toggle" 3 [WRITE AT_SOURCE] Entries (1 1 1) "2.0.0" Tier(json::toggle), "Inverts booleans of a document";
    "json.type" -2 [READONLY AT_SOURCE] Shared (1 1 1) "1.0.0" Tier(json::type_of), "Returns the type of a value of a document";
}
"transactions" {
    "discard" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY NOT_QUEUED] Nothing (0 0 0) "2.0.0" Transaction(Discard), "Discards a transaction";
    "exec" 1 [NOSCRIPT LOADING STALE NOT_QUEUED] Nothing (0 0 0) "1.2.0" Transaction(Exec), "Runs a transaction";
    "multi" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY NOT_QUEUED] Mode (0 0 0) "1.2.0" Transaction(Multi), "Starts a transaction";
    "unwatch" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] Nothing (0 0 0) "2.2.0" Transaction(Unwatch), "Stops watching all keys";
    "watch" -2 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY NOT_QUEUED] Connection (1 -1 1) "2.2.0" Transaction(Watch), "Makes the next transaction fail if keys change before it";
}
"connection" {
    "auth" -2 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] Mode (0 0 0) "1.0.0" Local(connection::auth, later = connection::auth_later), "Authenticates the connection";
    "client" -2 [KEEPS_CACHING] Nothing (0 0 0) "2.4.0" Container, "Manages client connections";
    "client|capa" -3 [NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "8.0.0" Local(server::nothing_to_do), "Announces a capability of the client";
    "client|getname" 2 [NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "2.6.9" Local(client::getname), "Returns the name of this connection";
    "client|getredir" 2 [NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "6.0.0" Local(upstream_tracking::getredir, later = upstream_tracking::run_getredir), "Returns the connection that tracking is redirected to";
    "client|help" 2 [LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "5.0.0" Local(introspection::help), "Lists the subcommands";
    "client|id" 2 [NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "5.0.0" Local(client::id), "Returns the number of this connection";
    "client|info" 2 [NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "6.2.0" Local(client::info), "Describes this connection";
    "client|kill" -3 [ADMIN NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "2.4.0" Local(client::kill), "Ends connections";
    "client|list" -2 [ADMIN NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "2.4.0" Local(client::list), "Describes connections";
    "client|maint_notifications" -3 [NOSCRIPT LOADING STALE KEEPS_CACHING] Mode (0 0 0) "8.2.0" Local(maintenance::notifications), "Requests maintenance notifications";
    "client|no-evict" 3 [ADMIN NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "7.0.0" Local(client::on_or_off), "Excludes this connection from client eviction";
    "client|no-touch" 3 [NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "7.2.0" Local(client::on_or_off), "Excludes this connection's reads from access statistics";
    "client|reply" 3 [NOSCRIPT LOADING STALE KEEPS_CACHING CONNECTION] Mode (0 0 0) "3.2.0" Local(client::reply), "Switches replies on and off";
    "client|caching" 3 [NOSCRIPT LOADING STALE KEEPS_CACHING] Mode (0 0 0) "6.0.0" Local(upstream_tracking::caching, later = upstream_tracking::run_caching), "Includes or excludes the next command's keys from tracking";
    "client|tracking" -3 [NOSCRIPT LOADING STALE KEEPS_CACHING CONNECTION] Connection (0 0 0) "6.0.0" Local(upstream_tracking::tracking, later = upstream_tracking::run_tracking), "Switches invalidations for keys that this connection reads on and off";
    "client|trackinginfo" 2 [NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "6.2.0" Local(upstream_tracking::info, later = upstream_tracking::run_info), "Describes this connection's tracking";
    "client|pause" -3 [ADMIN NOSCRIPT LOADING STALE KEEPS_CACHING] Mode (0 0 0) "3.0.0" Local(client::pause), "Pauses the commands of clients";
    "client|unpause" 2 [ADMIN NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "6.2.0" Local(client::unpause), "Ends CLIENT PAUSE";
    "client|unblock" -3 [ADMIN NOSCRIPT LOADING STALE KEEPS_CACHING] Nothing (0 0 0) "5.0.0" Local(client::unblock, later = client::unblocked), "Unblocks a client that waits in a blocking command";
    "client|setinfo" 4 [NOSCRIPT LOADING STALE KEEPS_CACHING] Connection (0 0 0) "7.2.0" Local(client::setinfo), "Sets the name or version of the client's library";
    "client|setname" 3 [NOSCRIPT LOADING STALE KEEPS_CACHING] Connection (0 0 0) "2.6.9" Local(client::setname), "Names this connection";
    "echo" 2 [LOADING STALE FAST] Nothing (0 0 0) "1.0.0" Local(connection::echo), "Returns its argument";
    "hello" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY CONNECTION] Connection (0 0 0) "6.0.0" Local(connection::hello, later = connection::hello_later), "Selects the protocol version, and can authenticate";
    "ping" -1 [SUBSCRIBER FAST] Nothing (0 0 0) "1.0.0" Local(connection::ping), "Answers PONG";
    "quit" -1 [SUBSCRIBER NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY NOT_QUEUED CONNECTION] Nothing (0 0 0) "1.0.0" Local(connection::quit), "Closes the connection";
    "reset" 1 [SUBSCRIBER NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY NOT_QUEUED CONNECTION] Nothing (0 0 0) "6.2.0" Local(connection::reset), "Resets the connection's state";
    "select" 2 [LOADING STALE FAST SELECTS] Mode (0 0 0) "1.0.0" Local(connection::select, later = connection::select_later), "Selects a database; reads of databases other than the source's are not cached";
}
"cluster" {
    "cluster" -2 [LOADING STALE] Nothing (0 0 0) "3.0.0" Local(cluster::cluster, later = cluster::keys_in_slot), "Describes this node as the only one of a cluster, if `cluster` is `emulated`";
    "asking" 1 [LOADING STALE FAST] Nothing (0 0 0) "3.0.0" Local(connection::accept), "Changes nothing";
    "readonly" 1 [LOADING STALE FAST] Nothing (0 0 0) "3.0.0" Local(connection::accept), "Changes nothing";
    "readwrite" 1 [LOADING STALE FAST] Nothing (0 0 0) "3.0.0" Local(connection::accept), "Changes nothing";
}
"pubsub" {
    "psubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBER CONNECTION] Connection (0 0 0) "2.0.0" Local(|call| subscriptions::subscribe(call, PATTERN), later = subscriptions::at_upstream), "Subscribes to channels by pattern";
    "punsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBER CONNECTION] Nothing (0 0 0) "2.0.0" Local(|call| subscriptions::unsubscribe(call, PATTERN), later = subscriptions::at_upstream), "Ends subscriptions by pattern";
    "publish" 3 [PUBSUB LOADING STALE FAST AT_SOURCE] Connection (0 0 0) "2.0.0" Local(pubsub::publish, later = pubsub::publish_in_turns), "Sends a message to the subscribers of a channel";
    "pubsub" -2 [] Nothing (0 0 0) "2.8.0" Container, "Inspects subscriptions";
    "pubsub|channels" -2 [PUBSUB LOADING STALE AT_SOURCE] Nothing (0 0 0) "2.8.0" Local(|call| pubsub::channels(call, CHANNEL), later = pubsub::channels_in_turns), "Returns the channels that have subscribers";
    "pubsub|help" 2 [LOADING STALE AT_SOURCE] Nothing (0 0 0) "6.2.0" Local(introspection::help), "Lists the subcommands";
    "pubsub|numpat" 2 [PUBSUB LOADING STALE AT_SOURCE] Nothing (0 0 0) "2.8.0" Local(pubsub::numpat), "Counts the patterns that have subscribers";
    "pubsub|numsub" -2 [PUBSUB LOADING STALE AT_SOURCE] Nothing (0 0 0) "2.8.0" Local(|call| pubsub::numsub(call, CHANNEL)), "Counts the subscribers of channels";
    "pubsub|shardchannels" -2 [PUBSUB LOADING STALE AT_SOURCE] Nothing (0 0 0) "7.0.0" Local(|call| pubsub::channels(call, SHARD), later = pubsub::channels_in_turns), "Returns the shard channels that have subscribers";
    "pubsub|shardnumsub" -2 [PUBSUB LOADING STALE AT_SOURCE] Nothing (0 0 0) "7.0.0" Local(|call| pubsub::numsub(call, SHARD)), "Counts the subscribers of shard channels";
    "spublish" 3 [PUBSUB LOADING STALE FAST AT_SOURCE] Connection (0 0 0) "7.0.0" Local(pubsub::spublish), "Sends a message to the subscribers of a shard channel";
    "ssubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBER CONNECTION] Connection (0 0 0) "7.0.0" Local(|call| subscriptions::subscribe(call, SHARD), later = subscriptions::at_upstream), "Subscribes to shard channels";
    "subscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBER CONNECTION] Connection (0 0 0) "2.0.0" Local(|call| subscriptions::subscribe(call, CHANNEL), later = subscriptions::at_upstream), "Subscribes to channels";
    "sunsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBER CONNECTION] Nothing (0 0 0) "7.0.0" Local(|call| subscriptions::unsubscribe(call, SHARD), later = subscriptions::at_upstream), "Ends subscriptions to shard channels";
    "unsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBER CONNECTION] Nothing (0 0 0) "2.0.0" Local(|call| subscriptions::unsubscribe(call, CHANNEL), later = subscriptions::at_upstream), "Ends subscriptions";
}
"scripting" {
    "function" -2 [] Nothing (0 0 0) "7.0.0" Container, "Answers for functions, of which there are none";
    "function|flush" -2 [NOSCRIPT AT_SOURCE] Nothing (0 0 0) "7.0.0" Local(server::nothing_to_do), "Deletes all functions";
    "function|help" 2 [LOADING STALE AT_SOURCE] Nothing (0 0 0) "7.0.0" Local(introspection::help), "Lists the subcommands";
}
"server" {
    "acl" -2 [] Nothing (0 0 0) "6.0.0" Container, "Manages users and their rules";
    "acl|cat" -2 [NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::cat), "Lists the categories of commands, or the commands of one";
    "acl|deluser" -3 [ADMIN NOSCRIPT LOADING STALE UNLOCKED AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::deluser), "Deletes users and closes their connections";
    "acl|dryrun" -4 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "7.0.0" Local(acl::dryrun), "Checks whether a user could run a command";
    "acl|genpass" -2 [NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::genpass), "Returns a random password";
    "acl|getuser" 3 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::getuser), "Describes a user";
    "acl|help" 2 [LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(introspection::help), "Lists the subcommands";
    "acl|list" 2 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::list), "Returns the users as in the users file";
    "acl|load" 2 [ADMIN NOSCRIPT LOADING STALE UNLOCKED AT_SOURCE USERS] Mode (0 0 0) "6.0.0" Local(acl::load), "Reads the users file again";
    "acl|log" -2 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::log), "Returns recent refusals";
    "acl|save" 2 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::save), "Writes the users file";
    "acl|setuser" -3 [ADMIN NOSCRIPT LOADING STALE UNLOCKED AT_SOURCE USERS] Shared (0 0 0) "6.0.0" Local(acl::setuser), "Creates or changes a user";
    "acl|users" 2 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::users), "Returns the names of the users";
    "acl|whoami" 2 [NOSCRIPT LOADING STALE AT_SOURCE USERS] Nothing (0 0 0) "6.0.0" Local(acl::whoami), "Returns the name of this connection's user";
    "bgsave" -1 [ADMIN NOSCRIPT AT_SOURCE] Nothing (0 0 0) "1.0.0" Local(server::bgsave), "Starts a snapshot of the memory tiers";
    "command" -1 [LOADING STALE] Nothing (0 0 0) "2.8.13" Tier(introspection::all), "Describes commands";
    "command|count" 2 [LOADING STALE] Nothing (0 0 0) "2.8.13" Tier(introspection::count), "Counts commands";
    "command|docs" -2 [LOADING STALE] Nothing (0 0 0) "7.0.0" Tier(introspection::docs), "Returns documentation of commands";
    "command|getkeys" -3 [LOADING STALE] Nothing (0 0 0) "2.8.13" Tier(introspection::getkeys), "Returns the keys of a command";
    "command|help" 2 [LOADING STALE AT_SOURCE] Nothing (0 0 0) "5.0.0" Local(introspection::help), "Lists the subcommands";
    "command|info" -2 [LOADING STALE] Nothing (0 0 0) "2.8.13" Tier(introspection::info), "Describes some commands";
    "command|list" -2 [LOADING STALE] Nothing (0 0 0) "7.0.0" Tier(introspection::list), "Lists the names of commands";
    "config" -2 [] Nothing (0 0 0) "2.0.0" Container, "Reads and changes settings";
    "config|get" -3 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE MERGED] Nothing (0 0 0) "2.0.0" Local(config::get, later = merged_replies::config_get, whose = config_larder::whose), "Returns settings that match patterns";
    "config|help" 2 [LOADING STALE AT_SOURCE] Nothing (0 0 0) "5.0.0" Local(introspection::help), "Lists the subcommands";
    "config|resetstat" 2 [ADMIN NOSCRIPT LOADING STALE UNLOCKED MERGED] Nothing (0 0 0) "2.0.0" Local(config::resetstat, later = merged_replies::resetstat), "Sets counters to zero";
    "config|rewrite" 2 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE] Nothing (0 0 0) "2.8.0" Local(config::rewrite), "Answers that there is no file to rewrite";
    "config|set" -4 [ADMIN NOSCRIPT LOADING STALE UNLOCKED AT_SOURCE SETS_PASSWORD] Mode (0 0 0) "2.0.0" Local(config::set, whose = config_larder::whose), "Changes settings";
    "dbsize" 1 [READONLY FAST KEYSPACE] Nothing (0 0 0) "1.0.0" Tier(keys::dbsize, keyspace = keyspace::dbsize), "Counts the keys";
    "debug" -2 [ADMIN NOSCRIPT LOADING STALE AT_SOURCE] Nothing (0 0 0) "1.0.0" Local(server::debug), "Answers with an error";
    "flushall" -1 [WRITE KEYSPACE FLUSH SLOW] Entries (0 0 0) "1.0.0" Tier(keys::flush), "Deletes all keys";
    "flushdb" -1 [WRITE KEYSPACE FLUSH SLOW] Entries (0 0 0) "1.0.0" Tier(keys::flush), "Deletes all keys";
    "hotkeys" -2 [] Nothing (0 0 0) "8.6.0" Container, "Finds the keys that take the most CPU time and bytes";
    "hotkeys|get" 2 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "8.6.0" Local(hotkeys::get), "Returns the counts of a session, running or stopped";
    "hotkeys|help" 2 [LOADING STALE] Nothing (0 0 0) "8.6.0" Local(introspection::help), "Lists the subcommands";
    "hotkeys|reset" 2 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "8.6.0" Local(hotkeys::reset), "Deletes the counts of a stopped session";
    "hotkeys|start" -2 [ADMIN NOSCRIPT LOADING STALE] Mode (0 0 0) "8.6.0" Local(hotkeys::start), "Starts a session that counts CPU time and bytes by key";
    "hotkeys|stop" 2 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "8.6.0" Local(hotkeys::stop), "Stops a session and keeps its counts";
    "info" -1 [LOADING STALE UNLOCKED MERGED] Nothing (0 0 0) "1.0.0" Local(info::info, later = merged_replies::info, whose = info::whose), "Describes the server";
    "larder.forwarded" 1 [ADMIN NOSCRIPT LOADING STALE FAST NO_MULTI CONNECTION] Mode (0 0 0) "0.2.0" Local(replication::forwarded), "Announces that a replica forwards writes over the connection (Larder's own)";
    "larder.replicate" 6 [ADMIN NOSCRIPT LOADING STALE NO_AUTH NO_MULTI CONNECTION] Mode (0 0 0) "0.2.0" Local(replication::replicate), "Turns the connection into the stream of changes that a replica follows (Larder's own)";
    "latency" -2 [] Nothing (0 0 0) "2.8.13" Container, "Shows how long commands take";
    "latency|doctor" 2 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "2.8.13" Local(latency::doctor), "Describes the latency events in words";
    "latency|graph" 3 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "2.8.13" Local(latency::graph), "Draws the samples of a latency event with letters";
    "latency|help" 2 [LOADING STALE] Nothing (0 0 0) "2.8.13" Local(introspection::help), "Lists the subcommands";
    "latency|histogram" -2 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "7.0.0" Local(latency::histogram), "Returns how long the calls of commands took";
    "latency|history" 3 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "2.8.13" Local(latency::history), "Returns the samples of a latency event";
    "latency|latest" 2 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "2.8.13" Local(latency::latest), "Returns the latest sample of each latency event";
    "latency|reset" -2 [ADMIN NOSCRIPT LOADING STALE] Nothing (0 0 0) "2.8.13" Local(latency::reset), "Forgets latency events";
    "lastsave" 1 [LOADING STALE FAST AT_SOURCE] Nothing (0 0 0) "1.0.0" Local(server::lastsave), "Returns when the last snapshot was written, in Unix seconds";
    "memory" -2 [] Nothing (0 0 0) "4.0.0" Container, "Inspects memory";
    "memory|help" 2 [LOADING STALE AT_SOURCE] Nothing (0 0 0) "4.0.0" Local(introspection::help), "Lists the subcommands";
    "memory|purge" 2 [AT_SOURCE] Nothing (0 0 0) "4.0.0" Local(server::nothing_to_do), "Changes nothing: freed memory is returned at once";
    "memory|usage" -3 [READONLY] Shared (2 2 1) "4.0.0" Tier(object::memory_usage), "Returns the bytes that a key and its value occupy";
    "save" 1 [ADMIN NOSCRIPT NO_MULTI AT_SOURCE] Nothing (0 0 0) "1.0.0" Local(|call| call.alone(), later = server::save), "Writes a snapshot of the memory tiers and waits for it";
    "replicaof" 3 [ADMIN NOSCRIPT STALE UNLOCKED AT_SOURCE] Mode (0 0 0) "5.0.0" Local(replication::replicaof), "Makes the server a replica, or a primary";
    "role" 1 [NOSCRIPT LOADING STALE FAST AT_SOURCE] Nothing (0 0 0) "2.8.12" Local(replication::role), "Returns the role in replication and the offset";
    "slaveof" 3 [ADMIN NOSCRIPT STALE UNLOCKED AT_SOURCE] Mode (0 0 0) "1.0.0" Local(replication::replicaof), "Old name of REPLICAOF";
    "slowlog" -2 [] Nothing (0 0 0) "2.2.12" Container, "Shows the latest commands that took long";
    "slowlog|get" -2 [ADMIN LOADING STALE] Nothing (0 0 0) "2.2.12" Local(slowlog::get), "Returns entries of the slow log";
    "slowlog|help" 2 [LOADING STALE] Nothing (0 0 0) "6.2.0" Local(introspection::help), "Lists the subcommands";
    "slowlog|len" 2 [ADMIN LOADING STALE] Nothing (0 0 0) "2.2.12" Local(slowlog::len), "Counts the entries of the slow log";
    "slowlog|reset" 2 [ADMIN LOADING STALE] Nothing (0 0 0) "2.2.12" Local(slowlog::reset), "Empties the slow log";
    "monitor" 1 [ADMIN NOSCRIPT LOADING STALE CONNECTION] Connection (0 0 0) "1.0.0" Local(subscriptions::monitor, later = subscriptions::at_upstream), "Streams every command that is processed";
    "time" 1 [LOADING STALE FAST AT_SOURCE] Nothing (0 0 0) "2.6.0" Local(server::time), "Returns the time";
}
        }
    };
}
pub(super) use for_all_commands;
