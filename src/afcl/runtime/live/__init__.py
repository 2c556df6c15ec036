# SPDX-License-Identifier: Apache-2.0
"""Live runs, whatever carries their messages: admission, server, sites, engines.

``afcl serve`` runs :func:`~afcl.runtime.live.server.serve_run` over an engine, ``afcl
join`` answers with :func:`~afcl.runtime.live.member.answer`. Engines are listed in
:mod:`~afcl.runtime.live.engines`.
"""
