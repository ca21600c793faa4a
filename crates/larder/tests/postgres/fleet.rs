//! Larders with peers in front of one database.
use super::{
    Settings,
    changes::{QUERIES, TABLES, metric, until_announced, until_seen},
    server::PostgresServer,
    text,
};
use crate::{common::wait_until, peers::fleet::Fleet};

/// Of each key only the owner asks the database. Each node follows the changes itself.
#[test]
fn the_owner_asks_and_each_node_follows() {
    let server = PostgresServer::start();
    server.sql(TABLES);
    server.sql("INSERT INTO users SELECT id, 'old' FROM generate_series(100, 139) id");
    let keys: Vec<String> = (100..140).map(|id| format!("user:{id}")).collect();
    let settings = Settings::of(&server.url(""), QUERIES);
    for count in [2, 3] {
        server.sql("UPDATE users SET name = 'old' WHERE id >= 100");
        let mut fleet = Fleet::start(count, &["--config", settings.path().to_str().unwrap()]);
        fleet.nodes.iter().for_each(until_announced);
        assert_eq!(server.sql("SELECT count(*) FROM pg_replication_slots WHERE active"), count.to_string());
        let fetches = |fleet: &Fleet| fleet.nodes.iter().map(|node| metric(node, "fetches_total")).sum::<f64>();
        for value in ["old", "new"] {
            server.sql(&format!("UPDATE users SET name = '{value}' WHERE id >= 100"));
            for key in &keys {
                fleet.nodes.iter().for_each(|node| until_seen(&mut node.client(), key, value));
            }
            // A fetch that was under way with the change is not kept. Then none is needed.
            wait_until("copies at the owners", || {
                let before = fetches(&fleet);
                for node in &fleet.nodes {
                    let mut client = node.client();
                    keys.iter().for_each(|key| assert_eq!(text(&mut client, &["GET", key]), value, "{key}"));
                }
                fetches(&fleet) == before
            });
        }
        assert!(fetches(&fleet) < 4.0 * keys.len() as f64, "{} fetches", fetches(&fleet));
        // A node that is gone leaves nothing behind, and its keys are read and followed by others.
        drop(fleet.nodes.pop());
        wait_until("its slot to go", || {
            server.sql("SELECT count(*) FROM pg_replication_slots") == (count - 1).to_string()
        });
        server.sql("UPDATE users SET name = 'later' WHERE id >= 100");
        let mut client = fleet.nodes[0].client();
        keys.iter().for_each(|key| until_seen(&mut client, key, "later"));
    }
}
