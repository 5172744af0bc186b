"""Owners of files: names of users and groups, and who could put something else in the place of a path.

Standard library only, Python 3.8 and later. Launcher and nodes use it.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

USER = "user "  # before the name of one
EVERYONE = "every user"
_ACL = "system.posix_acl_access"


def who_can_replace(path: str) -> set[str]:
    """Name the users and groups, besides this user and root, that can put something else in the place of a path.

    A directory above it is theirs, or they can write to it, and it is not sticky. Those above the home directory do not
    count: whoever can change these, can change all that is this user's. Nor do those that are not there yet.
    """
    home, above = os.path.realpath(os.environ.get("HOME") or "/"), os.path.realpath(path)
    who: set[str] = set()
    while above not in (home, os.path.dirname(above)):
        above = os.path.dirname(above)
        try:
            status = os.stat(above)
        except FileNotFoundError:
            continue
        mode = status.st_mode
        if status.st_uid not in (os.geteuid(), *administrators()):
            who.add(user_name(status.st_uid))
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            who.add(EVERYONE)
        if mode & stat.S_IWGRP and not mode & stat.S_ISVTX and not is_private_group(status, above):
            who.add(group_name(status.st_gid))
    return who


def strangers(path: str, trusted: list[str]) -> list[str]:
    """Name those who can put something else in the place of a path, and can replace none of the trusted paths.

    In the project of a team its members can replace the script as well: whom the user trusts with it is no stranger.
    """
    known = {who for each in trusted for who in who_can_replace(each)}
    if EVERYONE in known:
        return []
    return sorted(each for each in who_can_replace(path) - known if known.isdisjoint(groups_of(each)))


def is_private_group(facts: os.stat_result, file: int | str | Path) -> bool:
    """Tell whether a file's group is its owner's own: of the same name, without members, and no ACL adds others."""
    try:
        user, group = pwd.getpwuid(facts.st_uid), grp.getgrgid(facts.st_gid)
    except KeyError:
        return False
    if user.pw_gid != group.gr_gid or user.pw_name != group.gr_name or set(group.gr_mem) - {user.pw_name}:
        return False
    try:
        return _ACL not in os.listxattr(file) if hasattr(os, "listxattr") else True
    except OSError:
        return True  # a file system without them


def user_name(number: int) -> str:
    """Return `user NAME`, or with its number where it has no name here."""
    try:
        return USER + pwd.getpwuid(number).pw_name
    except KeyError:
        return "%s%d" % (USER, number)


def group_name(number: int) -> str:
    """Return `group NAME`, or with its number where it has no name here."""
    try:
        return "group " + grp.getgrgid(number).gr_name
    except KeyError:
        return "group %d" % number


def groups_of(user: str) -> set[str]:
    """Name the groups of a user that `user_name` named; none for another name."""
    name = user[len(USER) :] if user.startswith(USER) else user
    try:
        return {group_name(each) for each in os.getgrouplist(name, pwd.getpwnam(name).pw_gid)}
    except (KeyError, OSError):
        return set()


def administrators() -> tuple[int, ...]:
    """User ids of root here. A container that maps this user alone shows root's files with the kernel's overflow id."""
    try:
        with open("/proc/self/uid_map") as maps, open("/proc/sys/kernel/overflowuid") as number:
            ranges, overflow = [line.split() for line in maps], int(number.read())
    except (OSError, ValueError):
        return (0,)
    mapped = any(int(first) <= overflow < int(first) + int(count) for first, _, count in ranges)
    return (0,) if mapped else (0, overflow)
