using System.Text;
using BatchKit.IntegrationTests.Handlers;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Handlers of MQTT subscriptions.</summary>
public sealed class MqttHandlerTests(MosquittoFixture fixture) : HandlerSpecification
{
    [Fact]
    public async Task A_retained_message_says_so_and_a_live_one_does_not()
    {
        var path = new TopicPath(await fixture.GetAsync());
        await using (var publisher = new MqttTransport(path.Options()))
        {
            var kept = new MqttMessage(path.Destination.Name!, Some.Bytes("kept")) { Retain = true, ResponseTopic = "answers", CorrelationData = Some.Bytes("7") };
            Assert.True((await publisher.PublishManyAsync(new[] { kept }).WithinDeadline()).IsSuccess);
        }

        await using var scene = await HandlerScene.StartAsync(() => Task.FromResult<HandlerPath>(path));
        await scene.Journal.WaitForAsync(1);
        await scene.SendAsync("live");
        scene.Output.Write(path.Destination, ""u8, new MessageHeader { IsRetained = true });
        await scene.Journal.WaitForAsync(3);

        Assert.Equal(["kept: retained, answers, 7", "live: no header", ": no header"], path.Shown);
    }

    private protected override async Task<HandlerPath> ConnectAsync() => new TopicPath(await fixture.GetAsync());

    private sealed class TopicPath(MosquittoServer server) : HandlerPath
    {
        private readonly List<string> _shown = [];

        public override OutputHandle Destination { get; } = OutputHandle.Named(Some.Name("readings/cellar"));

        public IReadOnlyList<string> Shown => _shown;

        public MqttOptions Options() => MqttSome.Options(server);

        public override void AddSender(BatchKitBuilder builder) => builder.UseMqtt(options => MqttSome.Configure(options, server.Address));

        public override void AddReceiver(BatchKitBuilder builder)
        {
            // Before the receiver starts: a retained message arrives at once.
            builder.Services.AddSingleton(new Journal { OnMessage = Show });
            builder.ReceiveFromMqtt<JournalHandler>(options =>
            {
                MqttSome.Configure(options, server.Address);
                options.Subscriptions.Add(new MqttSubscription { Filter = Destination.Name! });
            });
        }

        public override Task ReadyAsync(IServiceProvider services) => Until.TrueAsync(() => services.GetRequiredKeyedService<MqttReceiver>(string.Empty).Fault is null);

        public override Task<long> CountRefusedAsync(IServiceProvider services) => Task.FromResult(services.GetRequiredKeyedService<MqttReceiver>(string.Empty).GetStatistics().RefusedMessages);

        public override ValueTask DisposeAsync() => ValueTask.CompletedTask;

        private void Show(ReceivedMessage message) => _shown.Add(
            $"{Encoding.UTF8.GetString(message.Payload.Span)}: "
            + (message.Header is { } header ? $"{(header.IsRetained ? "retained" : "live")}, {header.ReplyTo}, {Encoding.UTF8.GetString(header.CorrelationData.AsSpan())}" : "no header"));
    }
}
