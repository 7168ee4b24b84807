"""RouteTable: all live routes, as a part of the snapshot that requests are decided on."""

from __future__ import annotations

from graftwork.traffic.resources.table import LiveTable, reader_of
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.routes import ROUTE


class RouteTable(LiveTable[Route]):
    """Each route with its live revision."""


read_routes = reader_of(RouteTable, ROUTE)
