//! The user of a request where the Redis behind checks users (`auth = "passthrough"`):
//! `Authorization: Basic` with that Redis's users.
//!
//! The request runs as Larder's own user once the rules of the client's user, which are younger
//! than `auth` says, allow it.
use super::request_user::{RequestUser, basic_credentials, note_failed};
use crate::messages::problem_json::{Problem, ProblemKind};
use larder_base::identity::{Credential, RightsNow, UpstreamRights, UserRights};
use larder_core::app::Worker;
use larder_engine::Millis;
use larder_source::SourceError;
use larder_store::clock;
use std::{cell::RefCell, net::IpAddr, rc::Rc, sync::Arc};
use subtle::ConstantTimeEq as _;

/// The last user of a connection.
#[derive(Debug, Default)]
pub(crate) struct KnownUpstreamUser(RefCell<Option<Known>>);

#[derive(Debug)]
struct Known {
    /// `None`: the Redis's user `default`.
    header: Option<Box<[u8]>>,
    rights: Arc<UserRights>,
    /// Of which `user` is.
    version: u64,
    user: Rc<RequestUser>,
}

impl KnownUpstreamUser {
    /// The user with this header, if the Redis has let it in and its rules still count.
    pub(crate) fn get(&self, header: Option<&[u8]>) -> Option<Rc<RequestUser>> {
        let known = self.0.borrow();
        let known = known.as_ref().filter(|known| is_same(known.header.as_deref(), header))?;
        known.rights.is_current(known.version, clock::now()).then(|| known.user.clone())
    }

    /// The user with this header; asks the Redis if need be.
    ///
    /// # Errors
    /// The credentials are missing or wrong, or the Redis cannot be asked.
    pub(crate) async fn identify(
        &self,
        worker: &Worker,
        all: &UpstreamRights,
        header: Option<&[u8]>,
        address: IpAddr,
    ) -> Result<Rc<RequestUser>, Problem> {
        if let Some(user) = self.get(header) {
            return Ok(user);
        }
        let let_in = self
            .0
            .borrow()
            .as_ref()
            .filter(|known| is_same(known.header.as_deref(), header))
            .map(|known| (known.rights.clone(), known.version));
        let rights = match (&let_in, header) {
            (Some((rights, _)), _) => rights.clone(),
            (None, None) => all.of_default().clone(),
            (None, Some(header)) => log_in(worker, header, address).await?,
        };
        if matches!(rights.now(clock::now()), RightsNow::AskSource) {
            larder_redis::learn_rights_of(worker, &rights).await.map_err(|error| Problem::source(&error))?;
        }
        let version = rights.version();
        if let (Some((_, seen)), Some(header)) = (let_in, header)
            && seen != version
        {
            // The user has changed: the password may be an old one.
            log_in(worker, header, address).await?;
        }
        let user = rights.last().filter(|user| user.is_on() && (header.is_some() || user.has_no_password()));
        let user = user.ok_or_else(|| Problem::new(ProblemKind::LoginRequired))?;
        let user = Rc::new(RequestUser::of(user, Millis::MAX));
        *self.0.borrow_mut() = Some(Known { header: header.map(Into::into), rights, version, user: user.clone() });
        Ok(user)
    }
}

fn is_same(known: Option<&[u8]>, header: Option<&[u8]>) -> bool {
    match (known, header) {
        (Some(known), Some(header)) => known.ct_eq(header).into(),
        (known, header) => known.is_none() && header.is_none(),
    }
}

/// Has the Redis check the credentials of a header.
async fn log_in(worker: &Worker, header: &[u8], address: IpAddr) -> Result<Arc<UserRights>, Problem> {
    if let Some(wait) = worker.app.users.wait(Credential::Login, address) {
        return Err(Problem::too_many_logins(wait));
    }
    let (name, password) = basic_credentials(header)?;
    match larder_redis::check_login(worker, &name, &password).await {
        Ok(rights) => Ok(rights),
        Err(SourceError::Refused(_)) => {
            let shown = String::from_utf8_lossy(&name[..name.len().min(64)]);
            note_failed(worker, (Credential::Login, address), &shown);
            Err(Problem::of(ProblemKind::LoginRequired, "the source refuses the user or the password"))
        }
        Err(error) => Err(Problem::source(&error)),
    }
}
