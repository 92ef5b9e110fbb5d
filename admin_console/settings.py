"""Django's settings: from the environment and the data directory, fixed once read."""

import hashlib
import os
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from admin_console.options import OWN_WORDS, ConsoleOptions
from admin_console.paths import data_path, secret_key
from admin_console.vocabulary import form_limits, variables
from queue_engine.vocabulary import log_lines

_HERE = Path(__file__).resolve().parent
# Where templates/ and static/ are: beside this package in a checkout, inside it where a wheel was installed.
BASE_DIR = _HERE if (_HERE / "templates").is_dir() else _HERE.parent

try:
    CONSOLE = ConsoleOptions.from_environment(os.environ)
except ValueError as exc:
    raise ImproperlyConfigured(str(exc)) from exc
# The first words of the console's own paths.
CONSOLE_WORDS = OWN_WORDS

DATA_PATH = data_path()
PENSTOCK_ENVIRONMENT = os.environ.get(variables.ENVIRONMENT, "")[:24]
# Files that the console makes for browsers at start, such as the compressed plotly.js, lie here.
MADE_STATIC_PATH = DATA_PATH / "static"

_key = secret_key()
SECRET_KEY = _key.text
# The fault of the file, in a sentence that the start prints.
SECRET_KEY_COMPLAINT = _key.complaint
DEBUG = False

ALLOWED_HOSTS = list(CONSOLE.allowed_hosts)
CSRF_TRUSTED_ORIGINS = [CONSOLE.origin] if CONSOLE.origin else []
# Every path that Django makes begins with it; security/sub_path.py gives it to requests.
FORCE_SCRIPT_NAME = CONSOLE.sub_path or None
_ROOT = f"{CONSOLE.sub_path}/"

INSTALLED_APPS = [
    "admin_console",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
]

# All of them synchronous: a request then stays in one worker thread from end to end.
MIDDLEWARE = [
    "admin_console.security.headers.SecurityHeaders",
    "admin_console.security.cluster_prefix.ClusterPages",
    "admin_console.views.probes.Probes",
    "admin_console.security.request_pacing.PaceRequests",
    "admin_console.security.hosts.AllowedHosts",
    "django.middleware.security.SecurityMiddleware",
    "admin_console.security.compression.CompressText",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "admin_console.accounts.session_age.SessionAge",
    "admin_console.security.proxy_users.ProxyUsers",
    "admin_console.nsqadmin.callers.NsqadminCallers",
    "django.contrib.messages.middleware.MessageMiddleware",
    "admin_console.permissions.enforce.EnforcePermissions",
    "admin_console.answers.refusal.EngineUnavailable",
]

ROOT_URLCONF = "admin_console.urls"
ASGI_APPLICATION = "admin_console.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["admin_console.screens.names", "admin_console.views.act_buttons"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "admin_console.views.chrome.chrome",
            ],
        },
    },
]

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "admin_console.database",
        "NAME": DATA_PATH / "console.sqlite3",
        "OPTIONS": {
            # Writers queue up at their start instead of failing in the middle.
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=5000; PRAGMA foreign_keys=ON; "
                # The -wal file is this long at most once its rows are moved over; a large transaction makes it longer.
                f"PRAGMA journal_size_limit={16 << 20}"
            ),
        },
    }
}
DATABASE_ROUTERS = ["admin_console.database.own_tables.OwnTables"]
# Django's log-in brings groups, permissions and content types, which have no rows here: the console has its own roles.
# A first start applies 6 migrations instead of 20.
MIGRATION_MODULES = {"auth": None, "contenttypes": None}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Accounts. Sessions that the disk refuses wait in memory.
SESSION_ENGINE = "admin_console.accounts.waiting_sessions"
AUTH_USER_MODEL = "admin_console.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    # For requests whose user a trusted proxy names; others have none to give it.
    "admin_console.accounts.proxy_names.ProxyUsersBackend",
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
PASSWORD_HASHERS = ["admin_console.accounts.hashers.ConsoleArgon2Hasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# Cookies ignore ports: two consoles on one machine need names of their own.
_COOKIE_SUFFIX = hashlib.sha256(SECRET_KEY.encode()).hexdigest()[:8]
SESSION_COOKIE_NAME = f"penstock_session_{_COOKIE_SUFFIX}"
SESSION_COOKIE_PATH = _ROOT
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CONSOLE.is_https
# The longest a session may last; accounts/session_age.py ends idle ones earlier.
SESSION_COOKIE_AGE = 12 * 3600
SESSION_IDLE_S = 30 * 60
# accounts/known_browser.py; only the log-in reads it.
KNOWN_BROWSER_COOKIE_NAME = f"penstock_browser_{_COOKIE_SUFFIX}"
# A named cluster's pages have a path of their own for it.
KNOWN_BROWSER_COOKIE_PATH = _ROOT if CONSOLE.cluster.named else f"{_ROOT}login/"
CSRF_COOKIE_NAME = f"penstock_csrf_{_COOKIE_SUFFIX}"
CSRF_COOKIE_PATH = _ROOT
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = CONSOLE.is_https
CSRF_FAILURE_VIEW = "admin_console.security.csrf.refused"

# Headers; the Content-Security-Policy is in security/headers.py.
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
# It is about the whole host, which a console below a sub-path, or on a port of its own, shares with others.
SECURE_HSTS_SECONDS = 31_536_000 if CONSOLE.has_https_origin and not CONSOLE.sub_path else 0

SILENCED_SYSTEM_CHECKS = [
    "security.W002",  # X-Frame-Options and frame-ancestors come from security/headers.py
    "security.W005",  # subdomains of the console's host are not its own
    "security.W008",  # the proxy redirects; plain http stays for loopback
    "security.W021",  # as W005
    *([] if SECURE_HSTS_SECONDS else ["security.W004"]),  # see there
]

MESSAGE_STORAGE = "admin_console.accounts.cluster_messages.ClusterMessages"

# Static files are served unchanged; the content under a name with a hash never changes.
STATIC_URL = f"{_ROOT}static/"
STATICFILES_DIRS = [BASE_DIR / "static", MADE_STATIC_PATH]
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False
WHITENOISE_IMMUTABLE_FILE_TEST = r"^.*[.-][0-9a-f]{8,64}\.[a-z.]+$"

DATA_UPLOAD_MAX_MEMORY_SIZE = form_limits.BYTES_MAX
DATA_UPLOAD_MAX_NUMBER_FIELDS = form_limits.FIELDS_MAX
DATA_UPLOAD_MAX_NUMBER_FILES = 0

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
USE_THOUSAND_SEPARATOR = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "cluster": {"()": "admin_console.vocabulary.current_cluster.ClusterNameFilter"},
        "database": {"()": "admin_console.database.refused_write_filter.RefusedWriteFilter"},
        "refused": {"()": "admin_console.security.suspicious_request_filter.SuspiciousRequestFilter"},
    },
    "formatters": {"line": {"()": log_lines.formatter_of, "environment": os.environ}},
    "handlers": {
        "stderr": {
            "()": log_lines.LineHandler,
            "formatter": "line",
            "filters": ["cluster", "database", "refused"],
        }
    },
    "root": {"handlers": ["stderr"], "level": log_lines.level_of(os.environ)},
    "loggers": {
        # A line for each 404 or refused request would be an access log.
        "django.request": {"level": "ERROR"},
        "django.server": {"level": "ERROR"},
        "django.security": {"level": "ERROR"},
        "django": {"handlers": [], "propagate": True},
        "daphne": {"level": "WARNING"},
        "asyncio": {"level": "WARNING"},
    },
}
