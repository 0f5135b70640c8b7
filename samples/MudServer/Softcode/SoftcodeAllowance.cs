namespace MudServer.Softcode;

/// <summary>What one player may make the server compute over time: a budget that refills, so that heavy softcode of some takes little time from the others.</summary>
internal sealed class SoftcodeAllowance(SoftcodeLimits limits, TimeProvider timeProvider)
{
    private double _units = limits.MaxUnits;
    private long _refilledAt = timeProvider.GetTimestamp();

    /// <summary>The units that the player may use now.</summary>
    public double Available
    {
        get
        {
            var now = timeProvider.GetTimestamp();
            _units = Math.Min(limits.MaxUnits, _units + (timeProvider.GetElapsedTime(_refilledAt, now).TotalSeconds * limits.UnitsPerSecond));
            _refilledAt = now;
            return _units;
        }
    }

    public void Spend(double units) => _units -= units;
}
