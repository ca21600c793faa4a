//! One connection of the change stream, and the control connection beside it.
//!
//! Each second the control connection asks how far the database has written its log. Once the
//! stream has passed that position, it has announced all that was committed before the question.
//! If that takes too long, nothing counts as fresh until it has. The same question reads the
//! watched tables: the stream does not tell changes of the schema.
use super::{
    announced::{Announced, key_hash},
    change_stream::{ChangeStream, Follower},
    pgoutput::{self, Column, Message, Relation, Tuple},
    snapshot::SERVER,
    watches::{Checked, Tables, Watch, named, publish, tables_query},
    wire::{Answer, Frame, Login, Refusal, Wire},
};
use crate::{
    postgres::{
        connect::socket,
        lookup::{literal, quoted},
        postgres_settings::PostgresSettings,
    },
    source_health::TrackingGuard,
};
use larder_base::outbound::Stream;
use larder_config::{PostgresChanges, PostgresTlsMode};
use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    future::pending,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, sleep_until, timeout},
};

/// How often the database is asked how far it is.
const PROBE: Duration = Duration::from_secs(1);
/// How often the stream looks whether it is late, and asks for its position while it waits. A stream
/// that needs less to pass a position is not behind.
const TICK: Duration = Duration::from_millis(100);
/// So many messages are taken in one turn; then other tasks of this core go on.
const TURN: usize = 256;
/// The channel of the triggers.
const CHANNEL: &str = "larder_changes";
/// Of the publication, unless the URL names another.
const PUBLICATION: &str = "larder";

/// What an open stream knows.
pub(super) struct Session {
    stream: Arc<ChangeStream>,
    followers: Vec<Follower>,
    control: Wire,
    /// `None`: triggers announce changes, on the control connection.
    replication: Option<Wire>,
    /// What the control connection is asked each second, and the tables as it told them first.
    probe_query: String,
    tables: Tables,
    /// By the relation's identifier.
    routes: HashMap<u32, Route>,
    /// The transaction whose changes are being read.
    xid: u64,
    /// The stream was read up to here.
    position: u64,
    /// Prefixes to clear at the end of the turn: many rows may ask for it. Follower and watch.
    clears: BTreeSet<(usize, usize)>,
    probe: Probe,
    /// When the database was last told how far the stream was read.
    confirmed: Instant,
    /// Of the groups; empty while the stream is late.
    guards: Vec<TrackingGuard>,
}

/// The question how far the database is.
struct Probe {
    /// All that was committed by then has been announced.
    passed: Instant,
    /// When to ask again, if no question is open.
    due: Instant,
    /// When the question was asked that has no answer, or whose position was not passed.
    asked: Option<Instant>,
    answer: Answer,
    /// The position that it told.
    position: Option<u64>,
}

/// Which keys a relation's rows announce.
#[derive(Default)]
struct Route {
    /// Follower and watch.
    watches: Vec<(usize, usize)>,
    /// The places of their columns in rows; none: unknown, all keys are announced.
    columns: Vec<Vec<usize>>,
}

/// Opens a connection to the primary, and gives the address's number.
pub(super) async fn login(settings: &Arc<PostgresSettings>, replication: bool) -> Result<(Wire, usize), Refusal> {
    let mut why = Refusal::new("no address");
    for at in 0..settings.url.addresses.len() {
        match login_at(settings, at, replication).await {
            Ok(mut wire) => match is_standby(&mut wire).await {
                Ok(false) => return Ok((wire, at)),
                Ok(true) => {
                    why = Refusal::new(format!(
                        "{} is a standby, and changes come from the primary",
                        settings.url.addresses[at]
                    ));
                }
                Err(refusal) => why = refusal,
            },
            Err(refusal) => {
                why = Refusal { text: format!("{}: {}", settings.url.addresses[at], refusal.text), ..refusal }
            }
        }
    }
    Err(why)
}

async fn is_standby(wire: &mut Wire) -> Result<bool, Refusal> {
    let rows = wire.query("SELECT pg_is_in_recovery()::text").await?;
    Ok(rows.first().and_then(|row| row.first()?.as_deref()) != Some("false"))
}

async fn login_at(settings: &Arc<PostgresSettings>, at: usize, is_replication: bool) -> Result<Wire, Refusal> {
    let password = settings.password().await.map_err(Refusal::new)?;
    let login = Login {
        user: &settings.url.user,
        password: password.as_deref(),
        database: &settings.url.database,
        is_replication,
    };
    let start = async { Wire::start(transport(settings, at).await?, &login, &settings.buffers).await };
    timeout(settings.connect_timeout(), start).await.unwrap_or_else(|_| Err(Refusal::new("no answer in time")))
}

async fn transport(settings: &PostgresSettings, at: usize) -> Result<Stream, Refusal> {
    let mut stream = socket(&settings.url.addresses[at]).await?;
    let Some(tls) = &settings.tls[at] else { return Ok(stream) };
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await?;
    match (stream.read_u8().await?, stream) {
        (b'S', Stream::Tcp(tcp)) => Ok(Stream::Tls(Box::new(tls.connect(tcp).await?))),
        (_, stream) if settings.url.tls_mode == PostgresTlsMode::Prefer => Ok(stream),
        _ => Err(Refusal::new("the server does not speak TLS (sslmode)")),
    }
}

fn publication(settings: &PostgresSettings) -> Option<&str> {
    let name = settings.url.publication.as_deref().unwrap_or(PUBLICATION);
    (settings.url.changes == PostgresChanges::Stream).then_some(name)
}

/// The tables that are watched, and what was found of each. Makes the publication if it is missing.
pub(super) async fn checked_tables(
    settings: &PostgresSettings,
    control: &mut Wire,
    watches: &[Watch],
) -> Result<(Tables, Vec<Checked>), Refusal> {
    let publication = publication(settings);
    let query = tables_query(watches, publication);
    let mut tables = Tables::new(control.query(&query).await?);
    let checked = tables.check(watches).map_err(Refusal::new)?;
    if let Some(name) = publication {
        let level = control.query("SHOW wal_level").await?;
        if level.first().and_then(|row| row.first()?.as_deref()) != Some("logical") {
            let text = "wal_level is not logical: ALTER SYSTEM SET wal_level = logical, and restart the database \
                (or changes=notify)";
            return Err(Refusal::new(text));
        }
        tables = publish(control, tables, &query, name).await?;
    }
    tables.check_announced(watches, publication).map_err(Refusal::new)?;
    Ok((tables, checked))
}

/// What is wrong with the watched tables, for the start: no waiting mends it. What the database does
/// not tell now, the stream finds out.
pub(in crate::postgres) async fn wrong_watches(settings: &Arc<PostgresSettings>) -> Option<String> {
    let watches = Watch::all(&settings.url);
    if watches.is_empty() {
        return None;
    }
    let (mut control, _) = login(settings, false).await.ok()?;
    let watches = named(&mut control, &watches).await.ok()?;
    let publication = publication(settings);
    let tables = Tables::new(control.query(&tables_query(&watches, publication)).await.ok()?);
    tables.check(&watches).err().or_else(|| publication.and_then(|_| tables.check_identities(&watches).err()))
}

/// `0/16B6C50` as a number.
fn position(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    Some(u64::from_str_radix(high, 16).ok()? << 32 | u64::from_str_radix(low, 16).ok()?)
}

impl Session {
    /// Connects, checks, and begins the stream. From then on its groups count as tracked.
    pub(super) async fn open(stream: &Arc<ChangeStream>) -> Result<Session, Refusal> {
        let settings = &stream.settings;
        let mut followers = stream.followers();
        let (mut control, at) = login(settings, false).await?;
        for follower in &mut followers {
            follower.watches = named(&mut control, &follower.watches).await?.into();
        }
        let watches: Vec<Watch> = followers.iter().flat_map(|follower| follower.watches.iter().cloned()).collect();
        let (tables, checked) = checked_tables(settings, &mut control, &watches).await?;
        let mut routes = HashMap::<u32, Route>::new();
        let mut kinds = Vec::new();
        let places =
            followers.iter().enumerate().flat_map(|(at, of)| (0..of.watches.len()).map(move |watch| (at, watch)));
        for ((at, watch), checked) in places.zip(&checked) {
            let route = routes.entry(checked.oid).or_default();
            route.watches.push((at, watch));
            route.columns.push(Vec::new());
            let follower = &followers[at];
            let prefix = follower.watches[watch].prefix.as_str().into();
            kinds.push((follower.group, prefix, checked.kinds.clone()));
        }
        let mut replication = match publication(settings) {
            Some(_) => Some(login_at(settings, at, true).await?),
            None => None,
        };
        let mut begin = String::new();
        match &mut replication {
            Some(wire) => begin = slot(settings, wire).await?,
            None => drop(control.query(&format!("LISTEN {CHANNEL}")).await?),
        }
        // Transactions that are not over by now may have been committed before the stream's begin, so their rows are
        // not announced: what was fetched without seeing them is not kept. This transaction is later than all of them.
        let first = format!("SELECT pg_current_xact_id()::text, {SERVER}::text");
        let rows = replication.as_mut().unwrap_or(&mut control).query(&first).await?;
        let field = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref());
        let (Some(first), Some(server)) = (field(0).and_then(|xid| xid.parse().ok()), field(1)) else {
            return Err(Refusal::new("the database does not tell its transaction"));
        };
        let of_control = control.query(&format!("SELECT {SERVER}::text")).await?;
        if of_control.first().and_then(|row| row.first()?.as_deref()) != Some(server) {
            return Err(Refusal::new("two servers answer at this address"));
        }
        if let Some(wire) = &mut replication
            && let Err(refusal) = wire.start_copy(&begin).await
        {
            if let Some(slot) = settings.url.slot.as_ref().filter(|_| matches!(&*refusal.code, "55000" | "58P01")) {
                // The log that it needs was removed. What it would tell is not needed: nothing counts as fresh.
                tracing::warn!(%slot, reason = %refusal.text, "PostgreSQL: the replication slot is of no use, it is made again");
                control.query(&format!("SELECT pg_drop_replication_slot({})", literal(slot))).await?;
            }
            return Err(refusal);
        }
        stream.announced.start(server, first, settings.url.from_replicas, kinds);
        let probe_query =
            format!("SELECT pg_current_wal_flush_lsn()::text; {}", tables_query(&watches, publication(settings)));
        let mut session = Session {
            stream: stream.clone(),
            control,
            replication,
            probe_query,
            tables,
            routes,
            xid: first,
            position: 0,
            clears: BTreeSet::new(),
            probe: Probe {
                passed: Instant::now(),
                due: Instant::now(),
                asked: None,
                answer: Answer::default(),
                position: None,
            },
            confirmed: Instant::now(),
            guards: Vec::new(),
            followers,
        };
        session.vouch();
        tracing::info!(source = %settings.url.origin(), "PostgreSQL announces changes");
        Ok(session)
    }

    /// The groups count as fresh from now on.
    fn vouch(&mut self) {
        let guard = |of: &Follower| TrackingGuard::new(of.health.clone(), Some(of.to.clone()));
        self.guards = self.followers.iter().map(guard).collect();
    }

    /// Announces changes until the connection ends.
    pub(super) async fn follow(&mut self) -> Result<Infallible, Refusal> {
        loop {
            if !self.stream.is_wanted() {
                return Err(Refusal::new("no group is left"));
            }
            self.take_buffered()?;
            self.tick().await?;
            let wakes = if self.probe.asked.is_some() { Instant::now() + TICK } else { self.probe.due };
            let stream = self.stream.clone();
            let next = async {
                match &mut self.replication {
                    Some(wire) => wire.next().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                frame = next => {
                    let frame = frame?;
                    self.take(&frame)?;
                }
                frame = self.control.next() => {
                    let frame = frame?;
                    self.take_control(&frame)?;
                }
                () = sleep_until(wakes) => {}
                () = stream.has_new.notified() => return Err(Refusal::new("another group follows from now on")),
            }
        }
    }

    /// Takes what has arrived, within bounds.
    fn take_buffered(&mut self) -> Result<(), Refusal> {
        for _ in 0..TURN {
            let Some(frame) = self.replication.as_mut().map_or(Ok(None), Wire::buffered)? else { break };
            self.take(&frame)?;
        }
        self.clear_prefixes();
        Ok(())
    }

    /// Takes a message of the stream.
    fn take(&mut self, frame: &Frame) -> Result<(), Refusal> {
        let broken = || Refusal::new("the messages of the change stream are malformed");
        match frame.kind {
            b'd' => {}
            b'E' => return Err(Refusal::read(&frame.body)),
            b'c' => return Err(Refusal::new("the database ended the change stream")),
            _ => return Ok(()),
        }
        match frame.body.split_first() {
            Some((b'w', message)) => {
                let (begin, message) = message.split_first_chunk().ok_or_else(broken)?;
                let message = message.get(16..).ok_or_else(broken)?;
                match frame.is_cut {
                    true => self.take_cut(message).ok_or_else(broken)?,
                    false => self.announce(pgoutput::decode(message).ok_or_else(broken)?),
                }
                self.position = self.position.max(u64::from_be_bytes(*begin));
                Ok(())
            }
            Some((b'k', message)) => {
                let end = message.first_chunk().ok_or_else(broken)?;
                self.position = self.position.max(u64::from_be_bytes(*end));
                Ok(())
            }
            _ => Err(broken()),
        }
    }

    /// A row that is too large to be read whole: all that depends on its relation may have changed.
    fn take_cut(&mut self, message: &[u8]) -> Option<()> {
        let oid = message.get(1..)?.first_chunk().copied().map(u32::from_be_bytes)?;
        self.clear_relation(oid);
        Some(())
    }

    fn announce(&mut self, message: Message<'_>) {
        match message {
            Message::Begin { xid } => self.xid = self.stream.announced.full_xid(xid),
            Message::Commit { end, .. } => self.position = self.position.max(end),
            Message::Relation(relation) => self.describe(&relation),
            Message::Row { relation, old, new } => self.announce_row(relation, old, new),
            Message::Truncate(relations) => relations.iter().for_each(|oid| self.clear_relation(oid)),
            Message::Other => {}
        }
    }

    /// All that depends on a relation may have changed.
    fn clear_relation(&mut self, oid: u32) {
        for (at, watch) in self.routes.get(&oid).map(|route| &route.watches[..]).unwrap_or_default() {
            self.stream.announced.add(clear_hash(&self.followers[*at], *watch), self.xid);
            self.clears.insert((*at, *watch));
        }
    }

    fn describe(&mut self, relation: &Relation<'_>) {
        let Some(route) = self.routes.get_mut(&relation.oid) else { return };
        for ((at, watch), place) in route.watches.iter().zip(&mut route.columns) {
            let names = self.followers[*at].watches[*watch].columns.names();
            let found = names.iter().map(|column| relation.columns().position(|name| name == column.as_bytes()));
            *place = found.collect::<Option<_>>().unwrap_or_default();
        }
    }

    fn announce_row(&mut self, relation: u32, old: Option<Tuple<'_>>, new: Option<Tuple<'_>>) {
        let Some(route) = self.routes.get(&relation) else { return };
        let announced = &self.stream.announced;
        for ((at, watch), places) in route.watches.iter().zip(&route.columns) {
            let follower = &self.followers[*at];
            let before = old.map(|old| key_of(places, old, None));
            let after = new.map(|new| key_of(places, new, old));
            if before == Some(RowKey::Unknown) || after == Some(RowKey::Unknown) {
                announced.add(clear_hash(follower, *watch), self.xid);
                self.clears.insert((*at, *watch));
                continue;
            }
            let is_same = before == after;
            for key in before.into_iter().chain(after.filter(|_| !is_same)) {
                if let RowKey::Of(rest) = key {
                    announce_key(announced, follower, *watch, &rest, Some(self.xid));
                }
            }
        }
    }

    /// Clears what changes as a whole: each prefix once for all messages of a turn.
    fn clear_prefixes(&mut self) {
        for (at, watch) in std::mem::take(&mut self.clears) {
            let follower = &self.followers[at];
            follower.health.note_invalidations(1);
            follower.to.prefix(follower.watches[watch].prefix.as_bytes());
        }
    }

    /// Takes a message of the control connection: an answer to the probe, or of a trigger.
    fn take_control(&mut self, frame: &Frame) -> Result<(), Refusal> {
        if frame.kind == b'A' {
            return self.take_notification(frame);
        }
        let Some(rows) = self.probe.answer.take(frame)? else { return Ok(()) };
        let mut rows = rows?;
        let told = (!rows.is_empty()).then(|| rows.remove(0)).and_then(|row| position(row.first()?.as_deref()?));
        let Some(told) = told else { return Err(Refusal::new("the database does not tell its position")) };
        if Tables::new(rows) != self.tables {
            return Err(Refusal::new("the schema of a watched table, or its publication, has changed"));
        }
        self.probe.position = Some(told);
        if self.replication.is_none() {
            self.position = told;
        }
        Ok(())
    }

    /// `[oid, [column, …], [value, …]]`, or `[oid]`: see `triggers.sql`.
    fn take_notification(&mut self, frame: &Frame) -> Result<(), Refusal> {
        let broken = || Refusal::new("a message of NOTIFY is malformed");
        let mut parts = frame.body.get(4..).ok_or_else(broken)?.split(|byte| *byte == 0);
        let (Some(_), Some(payload)) = (parts.next().filter(|channel| *channel == CHANNEL.as_bytes()), parts.next())
        else {
            return Ok(());
        };
        let payload: Vec<serde_json::Value> = serde_json::from_slice(payload).map_err(|_| broken())?;
        let oid = payload.first().and_then(|oid| u32::try_from(oid.as_u64()?).ok()).ok_or_else(broken)?;
        let Some(route) = self.routes.get(&oid) else { return Ok(()) };
        let changed = payload.get(1).and_then(|of| of.as_array()).zip(payload.get(2).and_then(|of| of.as_array()));
        for (at, watch) in &route.watches {
            let follower = &self.followers[*at];
            match (changed, follower.watches[*watch].columns.names()) {
                (Some((changed, values)), names) if !names.is_empty() && changed.iter().eq(names) => {
                    for value in values {
                        let text = value.as_str().ok_or_else(broken)?;
                        announce_key(&self.stream.announced, follower, *watch, text.as_bytes(), None);
                    }
                }
                // Of another column of the row: its own message follows.
                (Some(_), [_, ..]) => {}
                _ => drop(self.clears.insert((*at, *watch))),
            }
        }
        self.clear_prefixes();
        Ok(())
    }

    /// Sees to the probe, and whether the stream is late.
    async fn tick(&mut self) -> Result<(), Refusal> {
        let limit = self.stream.settings.limits.timeout;
        let now = Instant::now();
        if let (Some(asked), Some(told)) = (self.probe.asked, self.probe.position)
            && self.position >= told
        {
            self.probe.passed = asked;
            (self.probe.asked, self.probe.position) = (None, None);
            // What was committed meanwhile is asked for at once. Until then the lag is not known.
            self.probe.due = if now < asked + TICK { asked + PROBE } else { now };
            if now < asked + TICK {
                self.note_lag(Duration::ZERO);
            }
        }
        match (self.probe.asked, self.probe.position) {
            (None, _) if now >= self.probe.due => {
                self.probe.asked = Some(now);
                within(limit, self.control.ask(&self.probe_query)).await?;
            }
            (Some(asked), None) if now >= asked + limit => return Err(Refusal::new("the database does not answer")),
            _ => {}
        }
        let waits = self.probe.position.is_some();
        if let Some(wire) = &mut self.replication
            && now >= self.confirmed + if waits { TICK } else { PROBE }
        {
            self.confirmed = now;
            within(limit, wire.confirm(self.position, waits)).await?;
        }
        if self.probe.asked.is_some_and(|asked| now >= asked + TICK) {
            self.note_lag(now - self.probe.passed);
        }
        let is_late = now > self.probe.passed + PROBE + limit;
        if is_late != self.guards.is_empty() {
            self.stream.announced.set_late(is_late);
            match is_late {
                true => {
                    tracing::warn!(source = %self.stream.settings.url.origin(), "the change stream of PostgreSQL is late: nothing counts as fresh until it has caught up");
                    self.guards.clear();
                }
                false => self.vouch(),
            }
        }
        Ok(())
    }

    fn note_lag(&self, lag: Duration) {
        let bytes = self.probe.position.map_or(0, |told| told.saturating_sub(self.position));
        self.followers.iter().for_each(|follower| follower.health.note_lag(lag, bytes));
    }
}
impl Drop for Session {
    /// Before the guards are dropped: no fetch is vouched for after they have told the loss.
    fn drop(&mut self) {
        self.stream.announced.stop();
    }
}

/// The part of a key that a row gives.
#[derive(Debug, PartialEq, Eq)]
enum RowKey {
    /// A part of it was not sent, or nothing is known of the columns.
    Unknown,
    /// A part of it is NULL, which no query finds.
    None,
    Of(Vec<u8>),
}

/// The key of a row. What an update left as it was is taken from the row before it.
fn key_of(places: &[usize], row: Tuple<'_>, before: Option<Tuple<'_>>) -> RowKey {
    let mut key = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let column = match row.columns().nth(*place) {
            Some(Column::Unchanged) => before.and_then(|before| before.columns().nth(*place)),
            column => column,
        };
        match column {
            None | Some(Column::Unchanged) => return RowKey::Unknown,
            Some(Column::Null) => return RowKey::None,
            Some(Column::Text(text)) => {
                key.extend(if number > 0 { &b":"[..] } else { b"" });
                key.extend(text);
            }
        }
    }
    if places.is_empty() { RowKey::Unknown } else { RowKey::Of(key) }
}

fn clear_hash(follower: &Follower, watch: usize) -> u64 {
    key_hash(follower.group, &follower.watches[watch].prefix, None)
}

/// A key has changed. `xid` is not needed where the change is visible already.
fn announce_key(announced: &Announced, follower: &Follower, watch: usize, rest: &[u8], xid: Option<u64>) {
    let prefix = &follower.watches[watch].prefix;
    if let Some(xid) = xid {
        announced.add(key_hash(follower.group, prefix, Some(rest)), xid);
    }
    follower.health.note_invalidations(1);
    // A row that is not stored yet is in no tier, and its flight must be fenced.
    if announced.are_fetched() || follower.to.are_wanted() {
        follower.to.key(&[prefix.as_bytes(), rest].concat());
    }
}

async fn within(limit: Duration, sent: impl Future<Output = Result<(), Refusal>>) -> Result<(), Refusal> {
    timeout(limit, sent).await.unwrap_or_else(|_| Err(Refusal::new("the database takes no messages")))
}

/// Makes the slot and gives the command that begins its copy.
async fn slot(settings: &PostgresSettings, wire: &mut Wire) -> Result<String, Refusal> {
    let begin = |slot: &str, from: &str| {
        let publication = literal(&quoted(publication(settings).unwrap_or_default()));
        format!("START_REPLICATION SLOT {slot} LOGICAL {from} (proto_version '1', publication_names {publication})")
    };
    let Some(slot) = &settings.url.slot else {
        let slot = format!("larder_{}_{:08x}", std::process::id(), fastrand::u32(..));
        wire.query(&format!("CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT")).await?;
        return Ok(begin(&slot, "0/0"));
    };
    let known = format!("SELECT FROM pg_replication_slots WHERE slot_name = {}", literal(slot));
    let slot = quoted(slot);
    if wire.query(&known).await?.is_empty() {
        wire.query(&format!("CREATE_REPLICATION_SLOT {slot} LOGICAL pgoutput NOEXPORT_SNAPSHOT")).await?;
    }
    // What was committed before is of no use: nothing that was fetched before counts as fresh.
    let now = wire.query("SELECT pg_current_wal_flush_lsn()::text").await?;
    let now = now.first().and_then(|row| row.first()?.as_deref()).unwrap_or("0/0");
    Ok(begin(&slot, now))
}
