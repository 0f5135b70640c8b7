using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.PackageMatrix;

internal static class BroadcastWay
{
    private const string Group = "everybody";

    public static Way Create()
    {
        var endPoint = new IPEndPoint(IPAddress.Loopback, FreePort.Take(1)[0]);
        var client = new TcpClient();
        return new Way("Broadcast, over TCP", OutputHandle.Named(Group), services =>
        {
            services.AddSingleton<Entrance>();
            services.AddBatchKit().UseBroadcast().Listen<Member>(new BroadcastListenerOptions { EndPoint = endPoint });
        })
        {
            LineEnd = "\n",
            ReadyAsync = async (services, cancellationToken) =>
            {
                await client.ConnectAsync(endPoint, cancellationToken);
                await services.GetRequiredService<Entrance>().Joined.Task.WaitAsync(cancellationToken);
                _ = ReadAsync(client.GetStream(), services.GetRequiredService<Arrivals>());
            },
            AfterAsync = () =>
            {
                client.Dispose();
                return Task.CompletedTask;
            },
        };
    }

    private static async Task ReadAsync(NetworkStream stream, Arrivals arrivals)
    {
        using var reader = new StreamReader(stream, Encoding.UTF8);
        while (await reader.ReadLineAsync() is { } line)
            arrivals.Add(line);
    }

    private sealed class Entrance
    {
        public TaskCompletionSource Joined { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    private sealed class Member(ClientConnection connection, IOutputBuffer output, Entrance entrance) : IConnectionHandler
    {
        public async ValueTask StartAsync(CancellationToken cancellationToken)
        {
            output.Write(connection.Handle, ControlMessage.JoinGroup(Group));
            await output.FlushAsync(connection.Handle, cancellationToken);
            entrance.Joined.SetResult();
        }

        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;

        public ValueTask EndAsync(DisconnectReason reason) => default;
    }
}
