using BatchKit;
using BatchKit.Broadcast;

// Start it twice, with --urls http://localhost:5001 and with --urls http://localhost:5002, and open both pages.
var builder = WebApplication.CreateBuilder(args);
builder.Services.AddBatchKit().UseBroadcast()
    .UseRabbitMq(builder.Configuration.GetSection("RabbitMq"))
    .ReceiveFromRabbitMq(services => services.GetRequiredService<BroadcastTransport>());
var chat = builder.Build();
chat.UseFileServer();
chat.MapBatchKitWebSockets<Member>("/chat");
chat.Run();

internal sealed class Member(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    public ValueTask StartAsync(CancellationToken cancellationToken)
    {
        output.Write(connection.Handle, ControlMessage.JoinGroup("lobby"));
        return default;
    }

    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        using (output.BeginBufferingScope(OutputHandle.Named("lobby")))
            foreach (var record in records.ToArray())
                await output.WriteAsync(OutputHandle.Named("lobby"), $"{record.GetText()}", cancellationToken: cancellationToken);
    }
}
