"use strict";
const { AnnalsError } = require("./native.cjs");
const { Follower } = require("./follower.cjs");
const { Mirror } = require("./mirror.cjs");
const { Session } = require("./session.cjs");
const { Store } = require("./store.cjs");
const { Writer } = require("./writer.cjs");

module.exports = { AnnalsError, Follower, Mirror, Session, Store, Writer };
