using System.Globalization;
using System.Net.WebSockets;
using System.Text;
using System.Threading.Channels;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;
using Npgsql;

namespace BatchKit.IntegrationTests.Walk;

/// <summary>A stranger copies each recipe of the front page, builds it against the packages, and runs it against real brokers.</summary>
public sealed class WalkTests(StrangersFolder folder, RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, PostgresFixture postgres) : IClassFixture<StrangersFolder>
{
    [Fact]
    public async Task The_quick_start_sends_a_thousand_writes_as_one_batch()
    {
        using var program = new CopiedProgram(folder["QuickStart"]);

        Assert.Equal(0, await program.WaitForExitAsync());
        await program.WaitForOutputAsync("1 batch with 1000 messages");
    }

    [Fact]
    public async Task The_tick_loop_sends_once_a_tick()
    {
        using var program = new CopiedProgram(folder["TickLoop"]);

        Assert.Equal(0, await program.WaitForExitAsync());
        await program.WaitForOutputAsync("tick loop: 400 messages in ");
    }

    [Fact]
    public async Task A_line_typed_at_one_chat_node_appears_once_at_both()
    {
        var broker = (await rabbitMq.GetAsync()).Address;
        var ports = FreePort.Take(2);
        string[] shared = [$"--RabbitMq:ConnectionString={broker}", $"--RabbitMq:Prefix={Guid.NewGuid():N}"];
        using var first = new CopiedProgram(folder["TwoNodeChat"], [$"--urls=http://127.0.0.1:{ports[0]}", .. shared]);
        using var second = new CopiedProgram(folder["TwoNodeChat"], [$"--urls=http://127.0.0.1:{ports[1]}", .. shared]);
        await first.WaitForOutputAsync("Application started");
        await second.WaitForOutputAsync("Application started");
        await using var ann = await ChatPage.OpenAsync(ports[0]);
        await using var bob = await ChatPage.OpenAsync(ports[1]);

        Assert.True(await ann.TypeUntilReadAsync("ann", bob), $"{first.Output}{second.Output}");
        Assert.True(await bob.TypeUntilReadAsync("bob", ann), $"{first.Output}{second.Output}");
        await ann.TypeAsync("goodbye");
        await bob.ReadUntilAsync("goodbye");
        await ann.ReadUntilAsync("goodbye");

        Assert.Distinct(ann.Lines);
        Assert.Distinct(bob.Lines);
    }

    [Fact]
    public async Task The_sensors_readings_arrive_through_the_broker()
    {
        var broker = (await mosquitto.GetAsync()).Address;
        using var program = new CopiedProgram(folder["Sensors"], $"--Mqtt:Server={broker}");

        await program.WaitForOutputAsync("sensors/1 at ");
        await program.WaitForOutputAsync("sensors/100 at ");
        program.Interrupt();

        Assert.Equal(0, await program.WaitForExitAsync());
    }

    [Fact]
    public async Task Each_task_in_the_database_is_handled()
    {
        var server = await postgres.GetAsync();
        var database = $"walk_{Guid.NewGuid():N}";
        await using (var source = NpgsqlDataSource.Create(server.ConnectionString))
        await using (var create = source.CreateCommand($"CREATE DATABASE {database}"))
            await create.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        var connection = new NpgsqlConnectionStringBuilder(server.ConnectionString) { Database = database };
        using var program = new CopiedProgram(folder["Tasks"], $"--ConnectionStrings:Tasks={connection}");

        await Until.TrueAsync(() => program.Output.Split(" is sent.").Length == 1001);
        program.Interrupt();

        Assert.Equal(0, await program.WaitForExitAsync());
        Assert.Contains("Mail 1000 is sent.", program.Output, StringComparison.Ordinal);
    }

    /// <summary>The recipe's page, as a browser has it open.</summary>
    private sealed class ChatPage : IAsyncDisposable
    {
        private static readonly TimeSpan Patience = TimeSpan.FromMilliseconds(500);

        private readonly ClientWebSocket _socket = new();
        private readonly Channel<string> _arrived = Channel.CreateUnbounded<string>();
        private readonly List<string> _lines = [];
        private Task _reading = Task.CompletedTask;

        public IReadOnlyList<string> Lines => _lines;

        public static async Task<ChatPage> OpenAsync(int port)
        {
            var address = string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}/");
            using var http = new HttpClient();
            Assert.Contains("new WebSocket(", await http.GetStringAsync(new Uri($"http://{address}")).WithinDeadline(), StringComparison.Ordinal);
            var page = new ChatPage();
            await page._socket.ConnectAsync(new Uri($"ws://{address}chat"), CancellationToken.None).WithinDeadline();
            page._reading = page.ReadAsync();
            return page;
        }

        public Task TypeAsync(string line) => _socket.SendAsync(Encoding.UTF8.GetBytes(line), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None);

        // A group's members and nodes get what is written after they have joined, so the first lines may be for no one.
        public async Task<bool> TypeUntilReadAsync(string name, ChatPage other)
        {
            for (var line = 1; line <= 60; line++)
            {
                await TypeAsync($"{name} {line}");
                using var patience = new CancellationTokenSource(Patience);
                if (await other.TryReadUntilAsync(text => text.StartsWith(name, StringComparison.Ordinal), patience.Token))
                    return true;
            }

            return false;
        }

        public async Task ReadUntilAsync(string line)
        {
            using var deadline = new CancellationTokenSource(Deadline.Time);
            Assert.True(await TryReadUntilAsync(text => text == line, deadline.Token), $"\"{line}\" did not arrive.");
        }

        public async ValueTask DisposeAsync()
        {
            _socket.Abort();
            await _reading.WithinDeadline();
            _socket.Dispose();
        }

        private async Task<bool> TryReadUntilAsync(Predicate<string> isIt, CancellationToken cancellationToken)
        {
            try
            {
                do
                    _lines.Add(await _arrived.Reader.ReadAsync(cancellationToken));
                while (!isIt(_lines[^1]));
                return true;
            }
            catch (OperationCanceledException)
            {
                return false;
            }
        }

        private async Task ReadAsync()
        {
            var buffer = new byte[1024];
            try
            {
                while (await _socket.ReceiveAsync(buffer, CancellationToken.None) is { MessageType: WebSocketMessageType.Text } received)
                    _arrived.Writer.TryWrite(Encoding.UTF8.GetString(buffer, 0, received.Count));
            }
            catch (Exception exception) when (exception is WebSocketException or OperationCanceledException)
            {
                // The page was closed.
            }
        }
    }
}
