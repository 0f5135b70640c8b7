namespace BatchKit.Benchmarks.Brokers;

/// <summary>The parts of an AMQP address.</summary>
internal sealed record BrokerAddress(string Host, string UserName, string Password, string VirtualHost)
{
    public static BrokerAddress From(Uri address)
    {
        var user = address.UserInfo.Split(':', 2).Select(Uri.UnescapeDataString).ToArray();
        return new BrokerAddress(
            $"{address.Host}:{(address.IsDefaultPort || address.Port < 0 ? 5672 : address.Port)}",
            user[0].Length > 0 ? user[0] : "guest",
            user.Length > 1 ? user[1] : "guest",
            address.AbsolutePath.Length > 1 ? Uri.UnescapeDataString(address.AbsolutePath[1..]) : "/");
    }
}
