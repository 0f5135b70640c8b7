using System.Net;
using BatchKit.Broadcast;
using ChatServer;

// Connect with telnet 127.0.0.1 4000, or by WebSocket to http://127.0.0.1:4001/chat. Each line goes to all clients.
var builder = WebApplication.CreateSlimBuilder(args);
builder.Configuration["AllowedHosts"] ??= "localhost;127.0.0.1";
builder.WebHost.ConfigureKestrel(kestrel => kestrel.Listen(IPAddress.Loopback, 4001));
builder.Services.AddBatchKit()
    .UseBroadcast(options => options.GoodbyeMessage = "The server goes down. Goodbye!\r\n")
    .Listen<ChatMember>(new BroadcastListenerOptions { Protocol = ClientProtocol.Telnet, EndPoint = new IPEndPoint(IPAddress.Loopback, 4000) });

var application = builder.Build();
application.MapBatchKitWebSockets<ChatMember>("/chat");
application.Run();
