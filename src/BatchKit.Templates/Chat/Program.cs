using BatchKit.Broadcast;
using ChatRooms;

var builder = WebApplication.CreateBuilder(args);
var output = builder.Services.AddBatchKit(builder.Configuration.GetSection("BatchKit")).UseBroadcast(builder.Configuration.GetSection("Broadcast"));

// With a broker, several processes form one chat: each sends lines to its own browsers, and RabbitMQ carries the lines between the processes.
var rabbitMq = builder.Configuration.GetSection("RabbitMq");
if (!string.IsNullOrEmpty(rabbitMq["ConnectionString"]))
    output.UseRabbitMq(rabbitMq).ReceiveFromRabbitMq(services => services.GetRequiredService<BroadcastTransport>());

var chat = builder.Build();
chat.UseFileServer();
chat.MapBatchKitWebSockets<ChatMember>("/chat");
chat.MapHealthChecks("/health");
chat.Run();
