using System.Text;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Buffers whose output is the application's own messages on RabbitMQ, read by the bare client.</summary>
public sealed class OwnBodyTests(RabbitMqFixture fixture)
{
    private readonly string _queue = Some.Name("own");

    [Fact]
    public async Task A_scope_is_one_message_with_the_body_and_the_properties_that_the_application_chose()
    {
        await using var consumer = await ConsumeAsync();
        using var host = await StartAsync();
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
        await using var consumer = await ConsumeAsync();
        using var host = await StartAsync(options => options.UnroutableGrace = TimeSpan.Zero);
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

    private async Task<IHost> StartAsync(Action<RabbitMqOptions>? configure = null)
    {
        var server = await fixture.GetAsync();
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddBatchKit().UseRabbitMq(
            batch => new RabbitMqMessage("", batch.Handle.Number == 99 ? $"{_queue}.none" : _queue, Encoding.UTF8.GetBytes($"{batch.Handle.Number}:{Encoding.UTF8.GetString(batch.Payload.Span)}"))
            {
                ContentType = "text/plain",
                Type = "telnet",
            },
            options =>
            {
                RabbitMqSome.Configure(options, server, server.Port, _queue);
                configure?.Invoke(options);
            });
        var host = application.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }

    private async Task<BareConsumer> ConsumeAsync()
    {
        var server = await fixture.GetAsync();
        var connection = await new ConnectionFactory { Uri = server.Address, AutomaticRecoveryEnabled = false }.CreateConnectionAsync();
        var channel = await connection.CreateChannelAsync();
        await channel.QueueDeclareAsync(_queue, durable: false, exclusive: true, autoDelete: true);
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
