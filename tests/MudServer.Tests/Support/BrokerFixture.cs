using BatchKit.TestServers.RabbitMQ;

[assembly: AssemblyFixture(typeof(MudServer.Tests.Support.BrokerFixture))]

namespace MudServer.Tests.Support;

/// <summary>The broker that tests share.</summary>
public sealed class BrokerFixture() : SharedServer<RabbitMqServer>(
    static () => RabbitMqServer.WhyMissing, static () => RabbitMqServer.ConnectOrStartAsync(), RabbitMqServer.AddressVariable, static server => $"{server.Address}");
