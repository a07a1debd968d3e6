//! The user as whom a recorded command runs (`--user`).

use std::ffi::CString;

use nix::unistd::{Uid, User, getgrouplist};
use sockscope_probe::RunAs;
use sockscope_program::failure::Failure;

/// The user that `--user` means: of the name or number, or without one the caller of sudo, whose number
/// `SUDO_UID` has.
///
/// # Errors
///
/// When there is no such user, or this process may not become another.
pub fn find(asked: Option<&str>, caller: Option<&str>) -> Result<RunAs, Failure> {
    let Some(asked) = asked.or(caller) else {
        return Err(Failure::new(
            "--user without a name is the user who called sudo, and nobody did: give a name or a number",
        ));
    };
    let found = match asked.parse() {
        Ok(number) => User::from_uid(Uid::from_raw(number)),
        Err(_) => User::from_name(asked),
    };
    let found = found.map_err(|error| Failure::new(format!("--user {asked}: {}", error.desc())))?;
    let user = found.ok_or_else(|| Failure::new(format!("--user {asked}: no such user")))?;
    if !Uid::effective().is_root() && user.uid != Uid::effective() {
        return Err(Failure::new(format!(
            "--user {asked}: only root can start a command as another user"
        )));
    }
    run_as(&user).map_err(|error| Failure::new(format!("--user {asked}: {}", error.desc())))
}

fn run_as(user: &User) -> Result<RunAs, nix::Error> {
    let name = CString::new(user.name.as_str()).map_err(|_| nix::Error::EINVAL)?;
    let groups = getgrouplist(&name, user.gid)?;
    Ok(RunAs {
        user: user.uid.as_raw(),
        group: user.gid.as_raw(),
        groups: groups.iter().map(|group| group.as_raw()).collect(),
        // As su(1) sets them: a program of this user must not write to the folder of another.
        environment: vec![
            ("HOME", user.dir.clone().into_os_string()),
            ("LOGNAME", user.name.clone().into()),
            ("USER", user.name.clone().into()),
            ("SHELL", user.shell.clone().into_os_string()),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a user who cannot be found.
    fn refused(asked: Option<&str>) -> String {
        find(asked, None).expect_err("there is no such user").to_string()
    }

    #[test]
    fn a_user_who_is_not_there_is_refused() {
        assert_eq!(refused(Some("no-such-user")), "--user no-such-user: no such user");
        assert_eq!(refused(Some("4294967294")), "--user 4294967294: no such user");
        assert!(refused(None).contains("nobody did: give a name or a number"));
    }

    #[test]
    fn oneself_is_found_by_number_by_name_and_as_the_caller_of_sudo() {
        let own = Uid::effective();
        let Ok(Some(user)) = User::from_uid(own) else { return };
        let by_number = find(Some(&own.to_string()), None).unwrap();
        assert_eq!(by_number.user, own.as_raw());
        assert!(by_number.groups.contains(&by_number.group));
        assert_eq!(find(Some(&user.name), Some("4294967294")).unwrap(), by_number);
        assert_eq!(find(None, Some(&own.to_string())).unwrap(), by_number);
    }
}
