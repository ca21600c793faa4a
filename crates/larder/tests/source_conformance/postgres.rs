//! A PostgreSQL source. Writes and faults are in the suite `postgres`.
use super::{LIMITS, conformance_read_only, open, run};
use crate::postgres::server::PostgresServer;
use larder_config::{PostgresOptions, PostgresQuery, PostgresUrl, SourceUrl};
use larder_source::{FillPolicy, SourceLimits};

#[test]
fn conformance_postgres() {
    let server = PostgresServer::start();
    let Ok(SourceUrl::Postgres(url)) = server.url("").parse() else { panic!("a URL") };
    let query = PostgresQuery {
        prefix: String::new(),
        query: "SELECT $1::bytea AS v WHERE $1 <> 'absent'".to_owned(),
        all_rows: false,
        depends_on: Vec::new(),
        upsert: None,
        delete: None,
    };
    let options = PostgresOptions { queries: vec![query], ..PostgresOptions::default() };
    let url = SourceUrl::Postgres(Box::new(PostgresUrl { options: Box::new(options), ..*url }));
    run(async {
        for connections in [1, 3] {
            let group = open(&url, SourceLimits { connections, ..LIMITS }, FillPolicy::default());
            group.until_up().await;
            conformance_read_only(&group, b"absent", |key, value| key == value).await;
        }
    });
}
