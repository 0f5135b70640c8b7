using System.Text;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Buffers whose output is the application's own messages on RabbitMQ, read by the bare client.</summary>
public sealed class OwnBodyTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private readonly string _queue = Some.Name("own");

    [Fact]
    public async Task A_scope_is_one_message_with_the_body_and_the_properties_that_the_application_chose()
    {
        await using var consumer = await ConsumeAsync(await fixture.GetAsync());
        using var host = await StartAsync(await fixture.GetAsync());
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        await using (output.BeginBufferingScope(OutputHandle.Connection(7)))
        {
            foreach (var line in Some.Lines(1000))
                output.Write(OutputHandle.Connection(7), line);
        }

        await output.WriteAsync(OutputHandle.Connection(8), "the end");

        await Until.TrueAsync(() => consumer.Texts.Contains("8:the end"));
        Assert.Equal([$"7:{string.Concat(Some.Lines(1000))}", "8:the end"], consumer.Texts);
        Assert.All(consumer.Properties, properties => Assert.Equal(("text/plain", "telnet"), (properties.ContentType, properties.Type)));
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_message_that_reaches_no_queue_is_refused_alone()
    {
        await using var consumer = await ConsumeAsync(await fixture.GetAsync());
        using var host = await StartAsync(await fixture.GetAsync(), options => options.UnroutableGrace = TimeSpan.Zero);
        var output = host.Services.GetRequiredService<OutputBuffer>();

        var scope = output.BeginBufferingScope(OutputHandle.Connection(99));
        output.Write(OutputHandle.Connection(99), "lost");
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
        output.Write(OutputHandle.Connection(1), "arrives");

        await Until.TrueAsync(() => consumer.Texts.Contains("1:arrives"));
        Assert.Contains("leads to no queue", $"{failure}", StringComparison.Ordinal);
        Assert.Equal(1, output.GetStatistics().FailedMessages);
        await host.StopAsync().WithinDeadline();
    }

    [Theory]
    [InlineData("no exchange", "none")]
    [InlineData("no exchange", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")]
    [InlineData("access to exchange", "amq.fanout")]
    [InlineData("access to exchange 'amq.default'", "")]
    [InlineData("access to topic", "amq.topic")]
    public async Task A_message_for_an_exchange_that_takes_none_is_refused_alone(string reason, string exchange)
    {
        const string Password = "secret-of-this-test";
        var server = await own.GetAsync();
        await using var consumer = await ConsumeAsync(server);
        var user = Some.Name("user");
        await server.AddUserAsync(user, Password, ".*", @"^(amq\.topic|none|x+)$");
        await server.ControlAsync("set_topic_permissions", user, "amq.topic", @"^[^.]+$", ".*").WithinDeadline();
        using var host = await StartAsync(
            server, options => (options.UserName, options.Password, options.UnroutableGrace) = (user, Password, TimeSpan.Zero),
            message => message with { Exchange = message.RoutingKey == _queue ? "amq.topic" : exchange }, partitions: 4);
        var output = host.Services.GetRequiredService<OutputBuffer>();
        var neighbours = Enumerable.Range(1, 60).Select(number => OutputHandle.Connection(number)).ToArray();

        for (var attempt = 0; attempt < 3; attempt++)
        {
            var scope = output.BeginBufferingScope(OutputHandle.Connection(99));
            output.Write(OutputHandle.Connection(99), "lost");
            foreach (var neighbour in neighbours)
                output.Write(neighbour, $"beside {attempt}");
            var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
            Assert.Contains(reason, $"{failure}", StringComparison.Ordinal);
        }

        await output.FlushAsync().WithinDeadline();
        Assert.Equal((180, 3), (output.GetStatistics().AcknowledgedMessages, output.GetStatistics().FailedMessages));
        await Until.TrueAsync(() => Array.TrueForAll(neighbours, neighbour => consumer.TextOf(neighbour).EndsWith("beside 2", StringComparison.Ordinal)));
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_message_above_the_brokers_limit_is_refused_alone_and_at_once()
    {
        const int maxMessageBytes = 32 * 1024;
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(maxMessageBytes);
        await using var consumer = await ConsumeAsync(server);
        using var host = await StartAsync(server, partitions: 4);
        var output = host.Services.GetRequiredService<OutputBuffer>();
        var neighbours = Enumerable.Range(1, 60).Select(number => OutputHandle.Connection(number)).ToArray();

        foreach (var neighbour in neighbours)
            output.Write(neighbour, "before");
        var failures = new List<string>();
        for (var attempt = 0; attempt < 2; attempt++)
        {
            var scope = output.BeginBufferingScope(OutputHandle.Connection(77));
            output.Write(OutputHandle.Connection(77), new string('x', 40_000));
            foreach (var neighbour in neighbours)
                output.Write(neighbour, $"beside {attempt}");
            failures.Add($"{await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline())}");
        }

        await output.FlushAsync().WithinDeadline();
        Assert.Equal((180, 2), (output.GetStatistics().AcknowledgedMessages, output.GetStatistics().FailedMessages));
        await Until.TrueAsync(() => Array.TrueForAll(neighbours, neighbour => consumer.TextOf(neighbour).EndsWith("beside 1", StringComparison.Ordinal)));
        Assert.Contains($"message size 40003 is larger than configured max size {maxMessageBytes}", failures[0], StringComparison.Ordinal);
        Assert.Contains("the broker's max_message_size (max size 32768)", failures[1], StringComparison.Ordinal);
        await host.StopAsync().WithinDeadline();
    }

    [Theory]
    [InlineData(nameof(RabbitMqMessage.RoutingKey), false)]
    [InlineData(nameof(RabbitMqMessage.RoutingKey), true)]
    [InlineData(nameof(RabbitMqMessage.ContentType), false)]
    [InlineData(nameof(RabbitMqMessage.Type), false)]
    public async Task A_message_with_a_text_that_AMQP_can_not_carry_is_refused_alone(string property, bool isHalfACharacter)
    {
        var text = isHalfACharacter ? "\ud800" : new string('x', 256);
        using var host = await StartAsync(await fixture.GetAsync(), create: message => property switch
        {
            nameof(RabbitMqMessage.RoutingKey) => message with { RoutingKey = text },
            nameof(RabbitMqMessage.ContentType) => message with { ContentType = text },
            _ => message with { Type = text },
        });
        var output = host.Services.GetRequiredService<OutputBuffer>();

        var scope = output.BeginBufferingScope(OutputHandle.Connection(7));
        output.Write(OutputHandle.Connection(7), "lost");
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Contains(isHalfACharacter ? "half of a surrogate pair" : "has 256 UTF-8 bytes, more than 255", $"{failure}", StringComparison.Ordinal);
        await host.StopAsync().WithinDeadline();
    }

    [Fact]
    [Trait("Lane", "faults: RabbitMQ is stopped and started")]
    public async Task Nothing_is_lost_or_reordered_when_the_broker_is_down_at_the_start_and_stops_in_the_middle()
    {
        var server = await own.GetAsync();
        await DeclareDurableAsync(server);
        await server.SyncDeclarationsAsync();
        await server.StopAsync();
        using var host = await StartAsync(server, options => options.Durable = true);
        var (output, player) = (host.Services.GetRequiredService<OutputBuffer>(), OutputHandle.Connection(7));
        var lines = Some.Lines(300);

        Write(0);
        await Until.TrueAsync(() => output.GetStatistics().FailedSends > 0);
        await server.StartAsync();
        await output.FlushAsync().WithinDeadline();
        Write(100);
        await server.StopAsync();
        Write(200);
        await server.StartAsync();
        await output.FlushAsync().WithinDeadline();

        // The broker may have had a message whose confirm was lost: its repeat comes next.
        Assert.Equal(lines, (await TakeAsync(server)).SelectMany(text => text["7:".Length..].Split('\n', StringSplitOptions.RemoveEmptyEntries)).Distinct());
        Assert.Equal((300, 0), (output.GetStatistics().AcknowledgedMessages, output.GetStatistics().FailedMessages));
        await host.StopAsync().WithinDeadline();

        void Write(int first)
        {
            foreach (var scoped in lines.Skip(first).Take(100).Chunk(10))
            {
                using (output.BeginBufferingScope(player))
                {
                    foreach (var line in scoped)
                        output.Write(player, $"{line}\n");
                }
            }
        }
    }

    private async Task<IHost> StartAsync(
        RabbitMqServer server, Action<RabbitMqOptions>? configure = null, Func<RabbitMqMessage, RabbitMqMessage>? create = null, int partitions = 1)
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddBatchKit().UseRabbitMq(
            batch =>
            {
                var body = Encoding.UTF8.GetBytes($"{batch.Handle.Number}:{Encoding.UTF8.GetString(batch.Payload.Span)}");
                var message = new RabbitMqMessage("", batch.Handle.Number == 99 ? $"{_queue}.none" : _queue, body) { ContentType = "text/plain", Type = "telnet" };
                return create is null ? message : create(message);
            },
            options =>
            {
                RabbitMqSome.Configure(options, server, server.Port, _queue);
                configure?.Invoke(options);
            },
            partitions);
        var host = application.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }

    private static Task<IConnection> ConnectAsync(RabbitMqServer server) => new ConnectionFactory { Uri = server.Address, AutomaticRecoveryEnabled = false }.CreateConnectionAsync();

    private async Task DeclareDurableAsync(RabbitMqServer server)
    {
        await using var connection = await ConnectAsync(server);
        await using var channel = await connection.CreateChannelAsync();
        await channel.QueueDeclareAsync(_queue, durable: true, exclusive: false, autoDelete: false, new Dictionary<string, object?>(StringComparer.Ordinal) { ["x-expires"] = 600_000L });
    }

    /// <summary>Takes all messages that the queue holds.</summary>
    private async Task<IReadOnlyList<string>> TakeAsync(RabbitMqServer server)
    {
        await using var connection = await ConnectAsync(server);
        await using var channel = await connection.CreateChannelAsync();
        var texts = new List<string>();
        while (await channel.BasicGetAsync(_queue, autoAck: true) is { } message)
            texts.Add(Encoding.UTF8.GetString(message.Body.Span));
        return texts;
    }

    private async Task<BareConsumer> ConsumeAsync(RabbitMqServer server)
    {
        var connection = await ConnectAsync(server);
        var channel = await connection.CreateChannelAsync();
        await channel.QueueDeclareAsync(_queue, durable: false, exclusive: true, autoDelete: true);
        await channel.QueueBindAsync(_queue, "amq.topic", _queue);
        var bare = new BareConsumer(connection, channel);
        await channel.BasicConsumeAsync(_queue, autoAck: true, bare);
        return bare;
    }

    private sealed class BareConsumer(IConnection connection, IChannel channel) : AsyncDefaultBasicConsumer(channel), IAsyncDisposable
    {
        private readonly Lock _lock = new();
        private readonly List<(string Text, IReadOnlyBasicProperties Properties)> _messages = [];

        public IReadOnlyList<string> Texts
        {
            get
            {
                lock (_lock)
                    return [.. _messages.Select(message => message.Text)];
            }
        }

        /// <summary>All that has come for a handle.</summary>
        public string TextOf(OutputHandle handle) => string.Concat(Texts.Where(text => text.StartsWith($"{handle.Number}:", StringComparison.Ordinal)));

        public IReadOnlyList<IReadOnlyBasicProperties> Properties
        {
            get
            {
                lock (_lock)
                    return [.. _messages.Select(message => message.Properties)];
            }
        }

        public override Task HandleBasicDeliverAsync(string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
            IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
        {
            lock (_lock)
                _messages.Add((Encoding.UTF8.GetString(body.Span), new BasicProperties(properties)));
            return Task.CompletedTask;
        }

        public async ValueTask DisposeAsync()
        {
            await Channel.DisposeAsync();
            await connection.DisposeAsync();
        }
    }
}
