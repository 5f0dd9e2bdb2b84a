// The storage part of Chorus: its conversation service. Like there, everything is synchronous.
import { open } from "annals/chorus";

const [root = ".chorus", state = "state"] = process.argv.slice(2);
const service = open(root, { state, cwd: "/home/me/app" });
const [workspaceId, agentId] = ["ws-1", "agent-a"];

const { id } = service.createConversation(workspaceId, agentId, { branchName: "main" });
const common = { timestamp: new Date().toISOString(), sessionId: "e8d973c7-481e-43d9-809d-9a4880e8cebc" };
service.appendMessage(id, { ...common, uuid: "m1", type: "user", content: "Why does the parser fail?" });
service.appendMessage(id, { ...common, uuid: "m2", type: "assistant", content: "It has no body." });

service.updateConversation(id, { title: "Fix the parser" });
service.updateConversationSettings(id, { permissionMode: "plan" });
const { conversation, messages } = service.loadConversation(id);
console.log(conversation.title, messages.map(({ type, content }) => `${type}: ${content}`));
console.log(service.listConversations(workspaceId, agentId).length, "conversation");
console.log(service.getConversationBranchName(id), service.getConversationPath(id).endsWith(`${id}-messages.jsonl`));

service.deleteConversation(id); // To the trash: store.undelete brings it back.
console.log(service.listConversations(workspaceId, agentId).length, "conversations");
await service.store.undelete(id);
console.log(service.deleteConversationsByBranch("main"), "deleted");
