using BatchKit;
using BatchKit.Broadcast;

// One process: dotnet run -- --urls http://localhost:5001. Another: the same with --urls http://localhost:5002 and --BatchKit:Node 2. Open both in a browser.
var builder = WebApplication.CreateBuilder(args);
builder.Services.AddBatchKit(builder.Configuration.GetSection("BatchKit"))
    .UseBroadcast()
    .UseRabbitMq(builder.Configuration.GetSection("RabbitMq"))
    .ReceiveFromRabbitMq(services => services.GetRequiredService<BroadcastTransport>());
var chat = builder.Build();
chat.UseFileServer();
chat.MapBatchKitWebSockets<Member>("/chat");
chat.Run();

internal sealed class Member(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    public async ValueTask StartAsync(CancellationToken cancellationToken) => output.Write(connection.Handle, ControlMessage.JoinGroup("lobby"));

    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        foreach (var record in records.ToArray())
            output.Write(OutputHandle.Named("lobby"), record.Payload.Span);
    }
}
