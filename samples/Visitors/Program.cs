using System.Net;
using System.Net.Sockets;
using BatchKit;
using BatchKit.Broadcast;

var builder = WebApplication.CreateBuilder(args);
var address = new IPEndPoint(IPAddress.Loopback, builder.Configuration.GetValue("Port", 4000));
builder.Services.AddBatchKit().UseBroadcast().Listen<Visitor>(new BroadcastListenerOptions { EndPoint = address });
var server = builder.Build();
server.MapBatchKitWebSockets<Visitor>("/visit");
await server.StartAsync();

using var client = new TcpClient();
await client.ConnectAsync(address);
await using var stream = client.GetStream();
await stream.WriteAsync("look\n"u8.ToArray());
using var reader = new StreamReader(stream);
for (var line = 1; line <= 1000; line++)
    Console.WriteLine(await reader.ReadLineAsync());
await server.WaitForShutdownAsync();

internal sealed class Visitor(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        using var doors = output.BeginWriting(connection.Handle);
        for (var door = 1; door <= 1000; door++)
            doors.Write($"There is door {door}.\r\n");
        return default;
    }
}
